# find_package(semcache): the target semcache::semcache, which is a header and no library.
if(NOT TARGET semcache::semcache)
    get_filename_component(_semcache_include "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
    add_library(semcache::semcache INTERFACE IMPORTED)
    set_target_properties(semcache::semcache PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${_semcache_include}"
        INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
    unset(_semcache_include)
endif()
