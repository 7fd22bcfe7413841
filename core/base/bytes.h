// Byte ranges and little-endian access. A Bytes is a view: it lives as long as what it views.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace multifora {

static_assert(std::endian::native == std::endian::little, "files and BSON are little-endian");

using Bytes = std::string_view;
using Buffer = std::string;

template <class T>
inline T load_le(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
inline void store_le(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
// Big-endian, for keys that are compared with memcmp.
template <class T>
inline T load_be(const void* from) {
  return std::byteswap(load_le<T>(from));
}
template <class T>
inline void store_be(void* to, T value) {
  store_le<T>(to, std::byteswap(value));
}
template <class T>
inline void append_le(Buffer& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
inline void append_be(Buffer& to, T value) {
  append_le<T>(to, std::byteswap(value));
}

}  // namespace multifora
