# Build options, compiler flags and libraries, for every target.

set(MULTIFORA_PLUGINS "all" CACHE STRING
    "Plugins linked into the server: 'all' or a list such as codec-lz4;index-btree;command-crud")
set(MULTIFORA_EXTRA_PLUGINS "" CACHE STRING
    "Folders of plugins outside of plugins/, a list; relative to the source folder or absolute")
option(MULTIFORA_SHARED_PLUGINS "Also build every plugin as a shared object" ON)
option(MULTIFORA_TESTS "Build the tests" ON)
option(MULTIFORA_BENCH "Build the benchmarks" ON)
option(MULTIFORA_WERROR "Treat warnings as errors" ON)
set(MULTIFORA_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
set(MULTIFORA_PAGE_SIZE "4096" CACHE STRING "Page size of data files in bytes (4096, 8192 or 16384)")

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# CMake has put its own defaults into the cache; what a preset or the command line says stays.
set(MULTIFORA_RELEASE_FLAGS "-O2 -g1 -DNDEBUG" CACHE STRING "Flags of the build type Release")
set(MULTIFORA_DEBUG_FLAGS "-O0 -g1" CACHE STRING "Flags of the build type Debug")
# Test programs spend their time in the code under test: optimising their own sources costs more to build
# than it saves to run.
set(MULTIFORA_TEST_FLAGS "$<IF:$<CONFIG:Release>,-O1,-O0>" CACHE STRING "Flags for the sources of tests")
set(CMAKE_CXX_FLAGS_RELEASE "${MULTIFORA_RELEASE_FLAGS}")
set(CMAKE_CXX_FLAGS_DEBUG "${MULTIFORA_DEBUG_FLAGS}")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
find_program(LLD_PROGRAM ld.lld)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
elseif(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual
                    -fno-strict-aliasing -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
if(MULTIFORA_WERROR)
  add_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these for correct std::string and std::optional code at -O2.
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow
                      -Wno-stringop-overread -Wno-array-bounds -Wno-free-nonheap-object)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's own std::stable_sort uses a function that it marks as deprecated.
  add_compile_options(-Wno-deprecated-declarations)
endif()
if(MULTIFORA_SANITIZE)
  add_compile_options(-fsanitize=${MULTIFORA_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MULTIFORA_SANITIZE})
endif()
add_compile_definitions(MULTIFORA_PAGE_SIZE=${MULTIFORA_PAGE_SIZE}
                        MULTIFORA_VERSION="${PROJECT_VERSION}")
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)

find_package(Threads REQUIRED)
