# Flags for every target of the project: strict warnings, hidden symbols, and
# whatever instrumentation the preset asks for.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# Asserts that are dear go with NDEBUG; those that are cheap stay (base/assert.h).
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g -DNDEBUG")

add_library(spindle_flags INTERFACE)
target_include_directories(spindle_flags INTERFACE ${PROJECT_SOURCE_DIR}/include
                           ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(spindle_flags INTERFACE _GNU_SOURCE)
# -fexceptions: pthread_exit unwinds through our frames and runs their cleanup.
target_compile_options(spindle_flags INTERFACE -Wall -Wextra -Wshadow -fexceptions
  $<$<COMPILE_LANGUAGE:C>:-Wconversion -Wstrict-prototypes -Wmissing-prototypes>
  -fno-omit-frame-pointer)
if(SPINDLE_WERROR)
  target_compile_options(spindle_flags INTERFACE -Werror)
endif()
if(SPINDLE_SANITIZE)
  target_compile_options(spindle_flags INTERFACE -fsanitize=${SPINDLE_SANITIZE}
                         -fno-sanitize-recover=all)
  target_link_options(spindle_flags INTERFACE -fsanitize=${SPINDLE_SANITIZE})
endif()
if(SPINDLE_COVERAGE)
  target_compile_options(spindle_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(spindle_flags INTERFACE --coverage)
endif()
if(SPINDLE_FUTEX STREQUAL "posix")
  target_compile_definitions(spindle_flags INTERFACE SPN_FUTEX_POSIX)
elseif(NOT SPINDLE_FUTEX STREQUAL "linux")
  message(FATAL_ERROR "SPINDLE_FUTEX is '${SPINDLE_FUTEX}': use linux or posix")
endif()
if(NOT SPINDLE_MEMBARRIER)
  target_compile_definitions(spindle_flags INTERFACE SPN_NO_MEMBARRIER)
endif()
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
target_link_libraries(spindle_flags INTERFACE Threads::Threads)
