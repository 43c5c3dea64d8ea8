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
# Hardening of what ships: the libraries and the program; scripts/check-hardening looks.
# The flags stand before CMAKE_C_FLAGS, so that a flag of the user's wins.  Debug builds and
# sanitizers do without: they look for the same mistakes in another way.
# Not -fcf-protection: its endbr64 are 3 % of the instructions of a task, for a mark that
# the linker drops where the C library's start files lack it, as on Debian 12.
set(SPINDLE_HARDEN_C)
set(SPINDLE_HARDENED OFF)
if(SPINDLE_HARDEN AND NOT SPINDLE_SANITIZE AND NOT SPINDLE_COVERAGE
   AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(SPINDLE_HARDENED ON)
  include(CheckCCompilerFlag)
  include(CheckCSourceCompiles)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  foreach(flag -fstack-protector-strong -fstack-clash-protection)
    string(MAKE_C_IDENTIFIER "SPINDLE_HAS${flag}" has)
    set(CMAKE_REQUIRED_FLAGS -Werror)
    check_c_compiler_flag(${flag} ${has})
    if(${has})
      string(APPEND SPINDLE_HARDEN_C " ${flag}")
    endif()
  endforeach()
  # With -Werror a level fails that would redefine the user's or the compiler's own, or that
  # the C library warns of.
  foreach(level 3 2)
    set(CMAKE_REQUIRED_FLAGS
      "${CMAKE_C_FLAGS_${build_type}} -Werror -D_FORTIFY_SOURCE=${level}")
    check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }"
                            SPINDLE_HAS_FORTIFY_${level})
    if(SPINDLE_HAS_FORTIFY_${level})
      string(APPEND SPINDLE_HARDEN_C " -D_FORTIFY_SOURCE=${level}")
      break()
    endif()
  endforeach()
  unset(CMAKE_REQUIRED_FLAGS)
endif()

# Compiles all C of the calling folder with them.
macro(spindle_harden_folder)
  set(CMAKE_C_FLAGS "${SPINDLE_HARDEN_C} ${CMAKE_C_FLAGS}")
endmacro()

# libspindle reads no bytes of strangers: its stack protector guards functions with arrays.
# The strong one, which guards each function that takes an address of a local, costs 3 to 8 %
# of the instructions of a task, and 15 % of those of a semaphore (scripts/cost).
function(spindle_harden_arrays_only target)
  if(SPINDLE_HARDENED AND NOT CMAKE_C_FLAGS MATCHES "-fno-stack-protector")
    target_compile_options(${target} PRIVATE -fstack-protector)
  endif()
endfunction()

# Links a target with full RELRO and BIND_NOW, a program as PIE.
function(spindle_harden_link target)
  if(SPINDLE_HARDENED)
    get_target_property(type ${target} TYPE)
    target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
                        $<$<STREQUAL:${type},EXECUTABLE>:-pie>)
  endif()
endfunction()

if(SPINDLE_FUTEX STREQUAL "posix")
  target_compile_definitions(spindle_flags INTERFACE SPN_FUTEX_POSIX)
elseif(NOT SPINDLE_FUTEX STREQUAL "linux")
  message(FATAL_ERROR "SPINDLE_FUTEX is '${SPINDLE_FUTEX}': use linux or posix")
endif()
if(NOT SPINDLE_MEMBARRIER)
  target_compile_definitions(spindle_flags INTERFACE SPN_NO_MEMBARRIER)
endif()
# Its lock would order what threads do, and hide races from ThreadSanitizer.
set(audit_default OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT SPINDLE_SANITIZE MATCHES "thread")
  set(audit_default ON)
endif()
option(SPINDLE_AUDIT "Tell leaks and misuse (spindle/audit.h); debug builds do" ${audit_default})
if(SPINDLE_AUDIT AND NOT SPINDLE_SIM)
  target_compile_definitions(spindle_flags INTERFACE SPN_AUDIT)
endif()
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
target_link_libraries(spindle_flags INTERFACE Threads::Threads)
