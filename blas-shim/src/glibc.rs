//! The versions of glibc's functions that the library is bound to.

glibc_versions::bind! {
    "GLIBC_2.2.5": dladdr, dlerror, dlopen, dlvsym, hypot, log2, pthread_attr_getstack, pthread_attr_setstacksize, pthread_create,
        pthread_detach, pthread_getattr_np, pthread_join, pthread_key_create, pthread_key_delete, pthread_setspecific;
    "GLIBC_2.3.3": dlinfo;
}

// Since glibc 2.30: the system call.
glibc_versions::define!(gettid: "mov eax, 186", "syscall", "ret");
