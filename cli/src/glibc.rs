//! The versions of glibc's functions that the command is bound to.

glibc_versions::bind! {
    // Debian 12's start code hands it no function that runs the constructors of the program: with a glibc before 2.34 they do
    // not run. Rust's standard library has one, for the arguments, which its own start code hands on as well.
    "GLIBC_2.2.5": __libc_start_main, dladdr, dlclose, dlerror, dlopen, dlsym, exp2, hypot, log2, pow, pthread_attr_getguardsize,
        pthread_attr_getstack, pthread_attr_setstacksize, pthread_create, pthread_detach, pthread_getattr_np, pthread_join,
        pthread_key_create, pthread_key_delete, pthread_setspecific, pthread_sigmask, sem_init, sem_post, sem_wait, __xstat64,
        __lxstat64, __fxstat64;
    "GLIBC_2.12": pthread_setname_np;
}

// Before glibc 2.33 these three were added at link time: libc has functions with the layout of the structure, 1, as the first
// argument.
glibc_versions::define!(stat64: "mov rdx, rsi", "mov rsi, rdi", "mov edi, 1", "jmp __xstat64");
glibc_versions::define!(lstat64: "mov rdx, rsi", "mov rsi, rdi", "mov edi, 1", "jmp __lxstat64");
glibc_versions::define!(fstat64: "mov rdx, rsi", "mov rsi, rdi", "mov edi, 1", "jmp __fxstat64");
// Since glibc 2.30: the system call.
glibc_versions::define!(gettid: "mov eax, 186", "syscall", "ret");
// Since glibc 2.29: ENOSYS. The command starts no program in another folder than its own.
glibc_versions::define!(posix_spawn_file_actions_addchdir_np: "mov eax, 38", "ret");
