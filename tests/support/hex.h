// Bytes from hexadecimal text and back, for tests.
#pragma once

#include <string>
#include <string_view>

namespace multifora::test {

// "01 ff" -> "\x01\xff". Blanks are skipped; the text is trusted to be hexadecimal.
inline std::string from_hex(std::string_view hex) {
  std::string digits;
  for (const char c : hex)
    if (c != ' ') digits.push_back(c);
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

inline std::string to_hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    hex.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return hex;
}

}  // namespace multifora::test
