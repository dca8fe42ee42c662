/* System calls by number with pointers into inaccessible memory; and functions of libc whose pointers the kernel does
 * not get.
 *
 *   numbers DIRECTORY NUMBERS EVERY */
#include "pointers.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fnmatch.h>
#include <libgen.h>
#include <linux/futex.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <search.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <termios.h>
#include <time.h>
#include <ucontext.h>
#include <wchar.h>
#include <wordexp.h>

static int file, place;
static char *say(char *at, const char *text) { return strcpy(at, text); }
static long opened(long fd) { return fd < 0 ? -1 : (close(fd), 1); }
#define CALL(name, before, seen, ...) TRY(#name, before, syscall(SYS_##name, __VA_ARGS__), seen)

static long child(void)
{
    pid_t pid = fork();
    if (!pid)
        _exit(3);
    return pid;
}

static long executed(long number)
{
    int status = -1;
    pid_t pid = vfork();
    if (!pid) {
        if (number == SYS_execve)
            syscall(number, P, Q, Q + 32);
        else
            syscall(number, -1, P, Q, Q + 32, 0);
        _exit(errno);
    }
    waitpid(pid, &status, 0);
    return status;
}

static void command(void)
{
    char **v = AT(char *, Q);
    say(P, "/bin/sh");
    v[0] = say(P + 64, "sh"), v[1] = say(P + 96, "-c"), v[2] = say(P + 128, "exit $LOOK"), v[3] = NULL;
    v[4] = say(P + 256, "LOOK=6"), v[5] = NULL;
}

static void by_number(void)
{
    struct stat s;
    long fd, pid;
    CALL(access, say(P, "file"), 0, P, R_OK);
    CALL(faccessat, say(P, "file"), 0, place, P, R_OK);
    CALL(chdir, say(P, "."), 0, P);
    CALL(chmod, say(P, "file"), 0, P, 0640);
    CALL(fchmodat, say(P, "file"), !stat("file", &s) && (s.st_mode & 0777) == 0600, place, P, 0600);
    CALL(chown, say(P, "file"), 0, P, -1, -1);
    CALL(mkdir, say(P, "made"), !rmdir("made"), P, 0700);
    CALL(rmdir, say(P, "made"); mkdir("made", 0700), 0, P);
    CALL(link, say(P, "file"); say(Q, "made"), 0, P, Q);
    CALL(unlink, say(P, "made"), 0, P);
    CALL(symlink, say(P, "file"); say(Q, "made"), 0, P, Q);
    CALL(readlink, say(P, "made"), Q[0], P, Q, 100L);
    CALL(unlinkat, say(P, "made"), 0, place, P, 0);
    CALL(rename, say(P, "file"); say(Q, "made"), rename("made", "file"), P, Q);
    CALL(renameat2, say(P, "file"); say(Q, "made"), rename("made", "file"), place, P, place, Q, 0);
    CALL(truncate, say(P, "file"), 0, P, 5L);
    TRY("open", say(P, "file"), opened(syscall(SYS_open, P, O_RDONLY)), 0);
    TRY("openat", say(P, "file"), opened(syscall(SYS_openat, place, P, O_RDONLY)), 0);
    TRY("creat", say(P, "made"), opened(syscall(SYS_creat, P, 0600)), unlink("made"));
    TRY("memfd_create", say(P, "made"), opened(syscall(SYS_memfd_create, P, 0)), 0);
    CALL(stat, say(Q, "file"), AT(struct stat, P)->st_size, Q, P);
    CALL(fstat, , AT(struct stat, P)->st_size, file, P);
    CALL(newfstatat, say(Q, "file"), AT(struct stat, P)->st_size, place, Q, P, 0);
    CALL(statx, say(Q, "file"), AT(struct statx, P)->stx_size, place, Q, 0, STATX_SIZE, P);
    CALL(statfs, say(Q, "file"), AT(struct statfs, P)->f_bsize, Q, P);
    CALL(utimensat, say(P, "file"); AT(long, Q)[2] = 2000, !stat("file", &s) ? s.st_mtime : -1, place, P, Q, 0);
    TRY("getcwd", , syscall(SYS_getcwd, P, 700L) > 0, P[0]);
    CALL(uname, , P[0], P);
    CALL(sysinfo, , AT(struct sysinfo, P)->totalram > 0, P);
    CALL(getrusage, , AT(struct rusage, P)->ru_maxrss > 0, RUSAGE_SELF, P);
    CALL(getrlimit, , AT(struct rlimit, P)->rlim_cur, RLIMIT_NOFILE, P);
    CALL(prlimit64, getrlimit(RLIMIT_CORE, AT(struct rlimit, P)), AT(struct rlimit, Q)->rlim_cur, 0, RLIMIT_CORE, P, Q);
    TRY("times", , syscall(SYS_times, P) != -1, AT(struct tms, P)->tms_utime >= 0);
    TRY("getgroups", , syscall(SYS_getgroups, 100, P) >= 0, 0);
    CALL(getresuid, , *AT(uid_t, Q) == getuid(), P, P + 4, Q);
    TRY("sched_getaffinity", , syscall(SYS_sched_getaffinity, 0, 128L, P) > 0, *AT(long, P) != 0);
    CALL(sched_getparam, *AT(int, P) = 7, *AT(int, P), 0, P);
    CALL(clock_gettime, , AT(struct timespec, P)->tv_sec > 0, CLOCK_MONOTONIC, P);
    CALL(gettimeofday, , AT(struct timeval, P)->tv_sec > 0, P, NULL);
    TRY("time", , syscall(SYS_time, P) > 0, *AT(long, P) > 0);
    CALL(nanosleep, AT(struct timespec, P)->tv_nsec = 1000, 0, P, Q);
    CALL(clock_nanosleep, AT(struct timespec, P)->tv_nsec = 1000, 0, CLOCK_MONOTONIC, 0, P, Q);
    CALL(getitimer, , AT(struct itimerval, P)->it_value.tv_sec, ITIMER_REAL, P);
    fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec first = {.it_value.tv_sec = 5000};
    CALL(timerfd_settime, timerfd_settime(fd, 0, &first, NULL); AT(struct itimerspec, P)->it_value.tv_sec = 1000,
         (AT(struct itimerspec, Q)->it_value.tv_sec + 50) / 100, fd, 0, P, Q);
    CALL(timerfd_gettime, , (AT(struct itimerspec, P)->it_value.tv_sec + 50) / 100, fd, P);
    close(fd);
    CALL(rt_sigprocmask, sigaddset(AT(sigset_t, P), SIGUSR2), 0, SIG_BLOCK, P, Q, 8L);
    CALL(rt_sigprocmask, sigaddset(AT(sigset_t, P), SIGUSR2), sigismember(AT(sigset_t, Q), SIGUSR2), SIG_UNBLOCK, P, Q, 8L);
    CALL(rt_sigpending, , *AT(long, P), P, 8L);
    CALL(rt_sigaction, AT(void *, P)[0] = (void *)SIG_IGN, *AT(long, Q), SIGWINCH, P, Q, 8L);
    CALL(rt_sigaction, , *AT(long, Q), SIGWINCH, NULL, Q, 8L);
    CALL(prctl, say(P, "numbers"), 0, 15, P, 0L, 0L, 0L);
    CALL(prctl, , P[0], 16, P, 0L, 0L, 0L);
    CALL(arch_prctl, , *AT(long, P) != 0, 0x1003, P);
    CALL(getcpu, , 0, P, Q, NULL);
    CALL(pipe, , opened(AT(int, P)[0]) + opened(AT(int, P)[1]), P);
    CALL(pipe2, , opened(AT(int, P)[0]) + opened(AT(int, P)[1]), P, 0);
    CALL(socketpair, , opened(AT(int, P)[0]) + opened(AT(int, P)[1]), AF_UNIX, SOCK_STREAM, 0, P);
    CALL(poll, *AT(struct pollfd, P) = ((struct pollfd){file, POLLIN, 0}), AT(struct pollfd, P)->revents, P, 1L, 1000);
    CALL(fcntl, AT(struct flock, P)->l_type = F_WRLCK, AT(struct flock, P)->l_type == F_UNLCK, file, F_GETLK, P);
    fd = epoll_create1(0);
    CALL(epoll_ctl, AT(struct epoll_event, P)->events = EPOLLIN, opened(fd), (int)fd, EPOLL_CTL_DEL, 0, P);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = offsetof(struct sockaddr_un, sun_path) + 1 + sprintf(name.sun_path + 1, "numbers-%d", (int)getpid());
    int door = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    CALL(bind, memcpy(P, &name, length), listen(door, 5), door, P, length);
    CALL(connect, memcpy(P, &name, length), 0, client, P, length);
    TRY("accept", *AT(socklen_t, Q) = 100, opened(syscall(SYS_accept, door, P, Q)), *AT(socklen_t, Q));
    CALL(getsockname, *AT(socklen_t, Q) = 100, *AT(socklen_t, Q) == (socklen_t)length, door, P, Q);
    CALL(setsockopt, *AT(int, P) = 1, 0, door, SOL_SOCKET, SO_PASSCRED, P, 4);
    close(door);
    close(client);
    CALL(futex, *AT(int, P) = 5, 0, P, FUTEX_WAIT, 6, NULL, NULL, 0);
    TRY("wait4", pid = child(), syscall(SYS_wait4, pid, P, 0, Q) == pid, *AT(int, P));
    CALL(waitid, pid = child(), AT(siginfo_t, P)->si_status, P_PID, pid, P, WEXITED, Q);
    TRY("execve", command(), executed(SYS_execve), (memset(Q, 0, 48), 0));
    TRY("execveat", command(), executed(SYS_execveat), (memset(Q, 0, 48), 0));
    char **pages = AT(char *, P);
    CALL(move_pages, pages[0] = P; pages[1] = (char *)matrix + 4 * 4096; pages[2] = NULL, AT(int, Q)[0] + 100 * AT(int, Q)[1] + 0 * (memset(P, 0, 24), 0), 0, 2L, P, NULL, Q, 0);
    TRY("get_mempolicy", , syscall(SYS_get_mempolicy, P, NULL, 0L, (char *)matrix + 5 * 4096, 3L), *AT(int, P));
    CALL(mincore, , P[0] & 1, other, 4096L, P);
    CALL(sendfile, *AT(off_t, P) = 1, *AT(off_t, P), -1, file, P, 3L);
    CALL(copy_file_range, *AT(off_t, P) = 1, *AT(off_t, P), file, P, -1, NULL, 3L, 0);
    /* Unmapped addresses are refused as without semcache. */
    CALL(uname, , 0, (void *)8);
    CALL(access, , 0, (void *)8, R_OK);
    CALL(execve, , 0, (void *)8, P, P);
    CALL(execve, say(P, "/bin/true"), 0, P, (void *)8, P);
}

static int compare(const void *a, const void *b) { return *(const unsigned char *)a - *(const unsigned char *)b; }

static void in_process(void)
{
    struct addrinfo *found;
    regex_t pattern;
    regmatch_t match;
    struct passwd account, *who;
    struct termios line;
    wordexp_t words;
    char *end, text[400];
    jmp_buf *jump;
    volatile int jumped = 0;
    TRY("strlen", say(P, "some words"), strlen(P), 0);
    TRY("strdup", say(P, "some words"), ({ char *s_ = strdup(P); long n_ = s_[5]; free(s_); n_; }), 0);
    TRY("strchr", say(P, "some words"), strchr(P, 'w') - P, 0);
    TRY("strstr", say(P, "some words"), strstr(P, "or") - P, 0);
    TRY("strcmp", say(P, "some words"); say(Q, "some words"), strcmp(P, Q), 0);
    TRY("strcasecmp", say(P, "some words"); say(Q, "SOME words"), strcasecmp(P, Q), 0);
    TRY("strtok", say(P, "some words"), strtok(P, " ") == P, P[4]);
    TRY("strtol", say(P, "12345x"), strtol(P, &end, 10), *end);
    TRY("strtod", say(P, "12.5"), strtod(P, NULL) * 2, 0);
    TRY("atoi", say(P, "17"), atoi(P), 0);
    TRY("memcpy", say(Q, "some"), memcpy(P, Q, 5) == P, P[3]);
    TRY("memmove", say(P, "some"), memmove(P + 1, P, 5) != NULL, P[4]);
    TRY("memchr", say(P, "some"), (char *)memchr(P, 'm', 5) - P, 0);
    TRY("memcmp", say(P, "some"); say(Q, "sole"), memcmp(P, Q, 5) > 0, 0);
    TRY("qsort", say(P, "words"), (qsort(P, 5, 1, compare), 1), P[0]);
    TRY("bsearch", say(P, "dorsw"), (char *)bsearch("s", P, 5, 1, compare) - P, 0);
    TRY("lfind", say(P, "words"), ({ size_t n_ = 5; (char *)lfind("d", P, &n_, 1, compare) - P; }), 0);
    TRY("snprintf", say(Q, "some"), snprintf(P, 100, "%s %d", Q, 17), P[5]);
    TRY("sscanf", say(P, "17 18"), sscanf(P, "%d %d", AT(int, Q), AT(int, Q) + 1), AT(int, Q)[1]);
    TRY("printf", say(P, "some words"), printf("%s\n", P), 0);
    TRY("puts", say(P, "some words"), puts(P) >= 0, 0);
    TRY("getenv", say(P, "HOME"), getenv(P) != NULL, 0);
    TRY("setenv", say(P, "LOOK"); say(Q, "7"), setenv(P, Q, 1), getenv("LOOK")[0]);
    TRY("unsetenv", say(P, "LOOK"), unsetenv(P), getenv("LOOK") == NULL);
    TRY("realpath", say(P, "./file"), realpath(P, text) == text, text[strlen(text) - 1]);
    TRY("realpath into it", , realpath("file", P) == P, P[0]);
    TRY("basename", say(P, "some/where"), basename(P) - P, 0);
    TRY("fnmatch", say(P, "*.c"); say(Q, "x.c"), fnmatch(P, Q, 0), 0);
    TRY("regcomp", say(P, "w[a-z]*"), regcomp(&pattern, P, 0), 0);
    TRY("regexec", say(P, "some words"), regexec(&pattern, P, 1, &match, 0), match.rm_so);
    regfree(&pattern);
    TRY("wordexp", say(P, "a $HOME"), wordexp(P, &words, 0), words.we_wordc);
    wordfree(&words);
    TRY("gethostname", , gethostname(P, 200), P[0] != 0);
    TRY("sysconf", , sysconf(_SC_PAGESIZE), 0);
    TRY("confstr", , confstr(_CS_PATH, P, 100) > 0, P[0]);
    TRY("getpwuid_r", , getpwuid_r(0, &account, P, 1000, &who), who != NULL) ;
    memset(P, 0, WINDOW);
    TRY("getaddrinfo", say(P, "127.0.0.1"); say(Q, "80"), getaddrinfo(P, Q, NULL, &found), 0);
    freeaddrinfo(found);
    TRY("inet_pton", say(P, "1.2.3.4"), inet_pton(AF_INET, P, Q), Q[2]);
    TRY("inet_ntop", say(Q, "abcd"), inet_ntop(AF_INET, Q, P, 100) == P, P[0]);
    TRY("tcgetattr", , tcgetattr(0, &line), 0);
    TRY("gmtime_r", *AT(time_t, P) = 86400, gmtime_r(AT(time_t, P), AT(struct tm, Q)) != NULL, AT(struct tm, Q)->tm_mday);
    memset(Q, 0, 100);
    TRY("mktime", AT(struct tm, P)->tm_year = 80, mktime(AT(struct tm, P)) != -1, 0);
    memset(P, 0, 100);
    TRY("timegm", AT(struct tm, P)->tm_year = 80, timegm(AT(struct tm, P)) > 0, 0);
    memset(P, 0, 100);
    TRY("strftime", AT(struct tm, Q)->tm_year = 80, strftime(P, 100, "%Y", AT(struct tm, Q)), P[0]);
    TRY("time", , time(AT(time_t, P)) > 0, *AT(time_t, P) > 0);
    TRY("mbstowcs", say(P, "some"), mbstowcs(AT(wchar_t, Q), P, 10), AT(wchar_t, Q)[3]);
    TRY("wcslen", AT(wchar_t, P)[0] = 'x', wcslen(AT(wchar_t, P)), 0);
    TRY("toupper", say(P, "x"), toupper(P[0]), 0);
    TRY("drand48_r", , srand48_r(5, AT(struct drand48_data, P)), (memset(P, 0, 100), 0));
    TRY("rand_r", , rand_r(AT(unsigned, P)) >= 0, 0);
    TRY("pthread_mutex_lock", , pthread_mutex_lock(AT(pthread_mutex_t, P)), pthread_mutex_unlock(AT(pthread_mutex_t, P)));
    memset(P, 0, 100);
    TRY("sem_init", , sem_init(AT(sem_t, P), 0, 1), 0);
    TRY("sem_wait", sem_init(AT(sem_t, P), 0, 1), sem_wait(AT(sem_t, P)), 0);
    TRY("sem_timedwait", sem_init(AT(sem_t, P), 0, 0); AT(struct timespec, Q)->tv_nsec = 1, sem_timedwait(AT(sem_t, P), AT(struct timespec, Q)), 0);
    TRY("pthread_once", , pthread_once(AT(pthread_once_t, P), tzset), 0);
    TRY("pthread_attr_init", , pthread_attr_init(AT(pthread_attr_t, P)), pthread_attr_destroy(AT(pthread_attr_t, P)));
    memset(P, 0, 100);
    TRY("getcontext", , getcontext(AT(ucontext_t, P)), (memset(P, 0, WINDOW), 0));
    jump = AT(jmp_buf, P);
    memset(P, 0, WINDOW);
    shut();
    if (!setjmp(*jump)) {
        shut();
        longjmp(*jump, 1);
    }
    jumped++;
    memset(P, 0, WINDOW);
    printf("setjmp %d\n", jumped);
    TRY("fmemopen", say(P, "some"), ({ FILE *f_ = fmemopen(P, 4, "r"); int c_ = fgetc(f_); fclose(f_); c_; }), 0);
    TRY("fgets", , ({ FILE *f_ = fopen("file", "r"); char *s_ = fgets(P, 100, f_); fclose(f_); s_ == P; }), P[0]);
    TRY("fprintf", say(P, "some"), ({ FILE *f_ = fopen("/dev/null", "w"); int n_ = fprintf(f_, "%s", P); fclose(f_); n_; }), 0);
    TRY("swab", say(P, "ab"), (swab(P, Q, 2), 1), Q[0]);
    TRY("getopt", say(P, "-x"), ({ char *v_[] = {"", P, NULL}; optind = 0; getopt(2, v_, "x"); }), 0);
}

static void every(void)
{
    by_number();
    in_process();
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    setenv("TZ", "UTC", 1);
    setenv("HOME", "/", 1);
    file = begun(argv[1]);
    place = open(".", O_RDONLY | O_DIRECTORY);
    places(atoi(argv[2]), atoi(argv[3]), every);
    return 0;
}
