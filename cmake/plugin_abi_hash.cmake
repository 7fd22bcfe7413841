# Writes the header with the hash of the plugin interface: every header that a plugin may include, of
# core and of the query engine, without comments and spacing. Two builds whose hashes are equal agree on
# all declarations; nobody has to remember to raise a number.
#
#   cmake -DSOURCE_DIR=... -DOUTPUT=... -P plugin_abi_hash.cmake
#
# The output is only touched when the hash is another.
file(GLOB_RECURSE headers RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/core/*.h
     ${SOURCE_DIR}/plugins/query-engine/*.h)
list(FILTER headers EXCLUDE REGEX "_test_support\\.h$")
list(SORT headers)
set(all "")
foreach(header IN LISTS headers)
  file(READ ${SOURCE_DIR}/${header} text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "[ \t\r\n]+" " " text "${text}")
  string(APPEND all "${header}\n${text}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
set(content "// Made by cmake/plugin_abi_hash.cmake.\n#pragma once\n#define MULTIFORA_ABI_HASH \"${hash}\"\n")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
  if(old STREQUAL content)
    return()
  endif()
endif()
file(WRITE ${OUTPUT} "${content}")
