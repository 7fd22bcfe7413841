# The stamp of the build is that of the headers as they are; another declaration makes another stamp, in
# any of the headers, and another comment does not.
set(script ${CMAKE_CURRENT_LIST_DIR}/../../cmake/plugin_abi_hash.cmake)

function(hash_of source_dir result)
  set(output ${SCRATCH}/hash.h)
  execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${source_dir} -DOUTPUT=${output} -P ${script}
                  COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${output} text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
hash_of(${SOURCE_DIR} now)
file(READ ${BUILT} built)
if(NOT now STREQUAL built)
  message(FATAL_ERROR "the build's stamp is not that of its headers:\n${built}\n${now}")
endif()

foreach(header core/plugin/index.h core/storage/types.h core/store/store.h plugins/query-engine/current_op.h)
  set(copy ${SCRATCH}/copy)
  file(REMOVE_RECURSE ${copy})
  file(COPY ${SOURCE_DIR}/core DESTINATION ${copy} FILES_MATCHING PATTERN "*.h")
  file(COPY ${SOURCE_DIR}/plugins/query-engine DESTINATION ${copy}/plugins
       FILES_MATCHING PATTERN "*.h")
  hash_of(${copy} same)
  file(APPEND ${copy}/${header} "\n  // a comment\n")
  hash_of(${copy} commented)
  file(APPEND ${copy}/${header} "\nnamespace multifora { inline constexpr int kMore = 1; }\n")
  hash_of(${copy} changed)
  if(NOT same STREQUAL now OR NOT commented STREQUAL now)
    message(FATAL_ERROR "${header}: what says the same has another stamp")
  endif()
  if(changed STREQUAL now)
    message(FATAL_ERROR "${header}: a new declaration did not change the stamp")
  endif()
endforeach()
