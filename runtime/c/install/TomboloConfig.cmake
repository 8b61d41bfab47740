# find_package(Tombolo): the libraries Tombolo::tombolo (shared) and Tombolo::tombolo_static, the program
# Tombolo::compiler, and a function that writes headers from interface files.
cmake_minimum_required(VERSION 3.20)
get_filename_component(_tombolo_prefix "${CMAKE_CURRENT_LIST_DIR}/@UP@" ABSOLUTE)

if(NOT TARGET Tombolo::tombolo)
    find_package(Threads REQUIRED)
    add_library(Tombolo::tombolo SHARED IMPORTED)
    set_target_properties(Tombolo::tombolo PROPERTIES
        IMPORTED_LOCATION "${_tombolo_prefix}/@LIBDIR@/libtombolo.so.@VERSION@"
        IMPORTED_SONAME libtombolo.so.@MAJOR@
        INTERFACE_INCLUDE_DIRECTORIES "${_tombolo_prefix}/include")
    add_library(Tombolo::tombolo_static STATIC IMPORTED)
    set_target_properties(Tombolo::tombolo_static PROPERTIES
        IMPORTED_LOCATION "${_tombolo_prefix}/@LIBDIR@/libtombolo.a"
        INTERFACE_INCLUDE_DIRECTORIES "${_tombolo_prefix}/include"
        INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
    add_executable(Tombolo::compiler IMPORTED)
    set_target_properties(Tombolo::compiler PROPERTIES IMPORTED_LOCATION "${_tombolo_prefix}/bin/tombolo")
endif()

# tombolo_stubs(<target> [PREFIX <text>] FILES <file.tbl>...)
#
# Writes a header for each interface file, called like it, where <target> finds it: `#include "kv.h"`. Name the files that
# others use too. They are written anew when an interface file, or one that it uses, has changed.
function(tombolo_stubs target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" PREFIX FILES)
    if(NOT arg_FILES OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "tombolo_stubs(<target> [PREFIX <text>] FILES <file.tbl>...)")
    endif()
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/tombolo/${target}")
    file(MAKE_DIRECTORY "${folder}")
    set(prefix)
    if(arg_PREFIX)
        set(prefix --prefix "${arg_PREFIX}")
    endif()
    foreach(file IN LISTS arg_FILES)
        get_filename_component(path "${file}" ABSOLUTE)
        get_filename_component(stem "${file}" NAME_WE)
        set(header "${folder}/${stem}.h")
        add_custom_command(OUTPUT "${header}"
            COMMAND Tombolo::compiler idl compile "${path}" --lang c --output "${header}" --depfile "${header}.d" ${prefix}
            DEPENDS "${path}" Tombolo::compiler
            DEPFILE "${header}.d"
            COMMENT "Writing ${stem}.h"
            VERBATIM)
        target_sources(${target} PRIVATE "${header}")
    endforeach()
    target_include_directories(${target} PRIVATE "${folder}")
endfunction()
