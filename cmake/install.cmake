# What `make install` puts where: headers, both libraries, the program, the man
# pages, spindle.pc and the CMake package.  Everything is relative to the prefix
# given at installation, so a tree may be built once and installed anywhere.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(headers_left_out) # those of a library that is not built
if(NOT TARGET spindle_rpc)
  include(src/rpc_sources.cmake)
  foreach(header spindle-rpc.h ${SPINDLE_RPC_HEADERS})
    get_filename_component(header ${header} NAME)
    list(APPEND headers_left_out PATTERN ${header} EXCLUDE)
  endforeach()
endif()
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" ${headers_left_out})
install(TARGETS spindle spindle_static EXPORT spindleTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET spindle_rpc)
  install(TARGETS spindle_rpc spindle_rpc_static EXPORT spindleRpcTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET spindle_program)
  install(TARGETS spindle_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

foreach(section 1 3 7)
  file(GLOB pages CONFIGURE_DEPENDS docs/man/*.${section})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/spindle)
install(EXPORT spindleTargets NAMESPACE spindle:: DESTINATION ${package_dir})
if(TARGET spindle_rpc)
  install(EXPORT spindleRpcTargets NAMESPACE spindle:: DESTINATION ${package_dir})
endif()
configure_package_config_file(cmake/spindleConfig.cmake.in
  ${PROJECT_BINARY_DIR}/spindleConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor may break the ABI, so only the same minor will do.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/spindleConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/spindleConfig.cmake
        ${PROJECT_BINARY_DIR}/spindleConfigVersion.cmake DESTINATION ${package_dir})

# A .pc file names the prefix, which is known only when it is installed.
set(pc_names spindle)
if(TARGET spindle_rpc)
  list(APPEND pc_names spindle-rpc)
endif()
foreach(name ${pc_names})
  set(pc_in ${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in)
  set(pc_out ${PROJECT_BINARY_DIR}/${name}.pc)
  install(CODE "
    set(PROJECT_VERSION \"${PROJECT_VERSION}\")
    set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
    set(LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
    set(INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    configure_file(\"${pc_in}\" \"${pc_out}\" @ONLY)
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig\"
         TYPE FILE FILES \"${pc_out}\")")
endforeach()
