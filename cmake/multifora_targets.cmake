# Targets. A folder is a target is a layer.
#
#   multifora_library(core_bson SOURCES a.cpp ... TESTS a_test.cpp ... LIBS core_base ...)
#     a static library; its tests become one doctest program, unit_core_bson, run by ctest.
#   multifora_plugin(codec-lz4 SOURCES ... TESTS ... LIBS lz4 ... REQUIRES query-engine)
#     a plugin: plugin_codec-lz4 (static) and, where shared objects are on, codec-lz4.so.
#     Registers itself in the global lists that the server's generated plugin table is made from.

set_property(GLOBAL PROPERTY MULTIFORA_PLUGINS_FOUND "")

# A program of doctest test cases. doctest's own code and main() are compiled once for all of them.
function(multifora_doctest_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  if(NOT TARGET doctest_main)
    add_library(doctest_main OBJECT ${CMAKE_SOURCE_DIR}/tests/support/doctest_main.cpp)
  endif()
  add_executable(${name} ${ARG_SOURCES} $<TARGET_OBJECTS:doctest_main>)
  target_compile_options(${name} PRIVATE ${MULTIFORA_TEST_FLAGS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} Threads::Threads)
endfunction()

# CORPUS pattern: test cases of this name need a folder of ../shared. They are a ctest of their own,
# corpus_<name>, which is skipped where the folder is absent (tests/support/shared_dir.h).
function(multifora_unit_tests name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;LIBS" ${ARGN})
  if(NOT MULTIFORA_TESTS OR NOT ARG_SOURCES)
    return()
  endif()
  multifora_doctest_program(unit_${name} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS})
  set(exclude "")
  if(ARG_CORPUS)
    set(exclude "--test-case-exclude=${ARG_CORPUS}")
    add_test(NAME corpus_${name} COMMAND unit_${name} --no-intro "--test-case=${ARG_CORPUS}"
             WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    set_tests_properties(corpus_${name} PROPERTIES
      ENVIRONMENT "MULTIFORA_SOURCE_DIR=${CMAKE_SOURCE_DIR}" SKIP_RETURN_CODE 77
      LABELS conformance)
  endif()
  add_test(NAME unit_${name} COMMAND unit_${name} --no-intro ${exclude}
           WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set_tests_properties(unit_${name} PROPERTIES
    ENVIRONMENT "MULTIFORA_SOURCE_DIR=${CMAKE_SOURCE_DIR}" LABELS unit)
endfunction()

function(multifora_library name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;TESTS;LIBS;TEST_LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LIBS} Threads::Threads)
  multifora_unit_tests(${name} SOURCES ${ARG_TESTS} LIBS ${name} ${ARG_TEST_LIBS}
                       CORPUS ${ARG_CORPUS})
endfunction()

function(multifora_plugin name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;TESTS;LIBS;TEST_LIBS;REQUIRES" ${ARGN})
  string(REPLACE "-" "_" identifier ${name})
  set(required "")
  foreach(r ${ARG_REQUIRES})
    list(APPEND required plugin_${r})
  endforeach()
  # plugin.cpp (or a plugin's only source) defines another entry in each form; the rest is compiled once.
  set(entry ${ARG_SOURCES})
  set(body "")
  if(plugin.cpp IN_LIST ARG_SOURCES)
    set(entry plugin.cpp)
    set(body ${ARG_SOURCES})
    list(REMOVE_ITEM body plugin.cpp)
  endif()
  add_library(plugin_${name} STATIC ${entry})
  target_link_libraries(plugin_${name} PUBLIC core ${ARG_LIBS} ${required} Threads::Threads)
  if(body)
    add_library(objects_${name} OBJECT ${body})
    target_link_libraries(objects_${name} PRIVATE core ${ARG_LIBS} ${required})
    target_sources(plugin_${name} PRIVATE $<TARGET_OBJECTS:objects_${name}>)
  endif()
  set_property(GLOBAL APPEND PROPERTY MULTIFORA_PLUGINS_FOUND ${name})
  set_property(GLOBAL PROPERTY MULTIFORA_PLUGIN_REQUIRES_${name} "${ARG_REQUIRES}")
  if(MULTIFORA_SHARED_PLUGINS)
    # Symbols of the core (and of query-engine) come from the server at load time.
    add_library(shared_${name} MODULE ${entry})
    target_compile_definitions(shared_${name} PRIVATE MULTIFORA_SHARED_PLUGIN=1)
    target_link_libraries(shared_${name} PRIVATE ${ARG_LIBS})
    if(body)
      target_sources(shared_${name} PRIVATE $<TARGET_OBJECTS:objects_${name}>)
    endif()
    set_target_properties(shared_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins)
  endif()
  multifora_unit_tests(plugin_${name} SOURCES ${ARG_TESTS}
                       LIBS plugin_${name} ${ARG_TEST_LIBS} CORPUS ${ARG_CORPUS})
endfunction()
