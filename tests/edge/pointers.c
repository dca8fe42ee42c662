/* Functions of libc that pass paths, arrays of strings and structures in inaccessible memory to the kernel.
 *
 *   pointers DIRECTORY NUMBERS EVERY */
#include "pointers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <glob.h>
#include <grp.h>
#include <mntent.h>
#include <mqueue.h>
#include <nl_types.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <stddef.h>
#include <linux/filter.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/swap.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <threads.h>
#include <time.h>
#include <utime.h>
#include <utmp.h>

static int file, place;
static void nothing(int signal) { (void)signal; }

/* A string at a place. */
static char *say(char *at, const char *text) { return strcpy(at, text); }

/* Closes the descriptors that were opened. */
static long opened(int fd) { return fd < 0 ? -1 : (close(fd), 1); }

static long stream(FILE *f)
{
    char line[80] = "";
    if (!f)
        return -1;
    fgets(line, sizeof line, f);
    fclose(f);
    return line[0];
}

static void names(void)
{
    struct stat s;
    TRY("access", say(P, "file"), access(P, R_OK), 0);
    TRY("access to nothing", say(P, "none"), access(P, R_OK), 0);
    TRY("faccessat", say(P, "file"), faccessat(place, P, R_OK, 0), 0);
    TRY("euidaccess", say(P, "file"), euidaccess(P, R_OK), 0);
    TRY("eaccess", say(P, "file"), eaccess(P, R_OK), 0);
    TRY("acct", say(P, "none"), acct(P), 0);
    TRY("chdir", say(P, "."), chdir(P), 0);
    TRY("chmod", say(P, "file"), chmod(P, 0640), !stat("file", &s) && (s.st_mode & 0777) == 0640);
    TRY("fchmodat", say(P, "file"), fchmodat(place, P, 0600, 0), !stat("file", &s) && (s.st_mode & 0777) == 0600);
    TRY("chown", say(P, "file"), chown(P, -1, -1), 0);
    TRY("lchown", say(P, "file"), lchown(P, -1, -1), 0);
    TRY("fchownat", say(P, "file"), fchownat(place, P, -1, -1, 0), 0);
    TRY("chroot", say(P, "none"), chroot(P), 0);
    TRY("open", say(P, "file"), opened(open(P, O_RDONLY)), 0);
    TRY("open64", say(P, "file"), opened(open64(P, O_RDWR)), 0);
    TRY("openat", say(P, "file"), opened(openat(place, P, O_RDONLY)), 0);
    TRY("openat64", say(P, "file"), opened(openat64(place, P, O_RDONLY)), 0);
    TRY("creat", say(P, "made"), opened(creat(P, 0600)), !unlink("made"));
    TRY("creat64", say(P, "made"), opened(creat64(P, 0600)), !unlink("made"));
    TRY("fopen", say(P, "file"); say(Q, "r"), stream(fopen(P, Q)), 0);
    TRY("fopen64", say(P, "file"); say(Q, "r"), stream(fopen64(P, Q)), 0);
    FILE *f;
    TRY("freopen", say(P, "file"); say(Q, "r"); f = fopen("/dev/null", "r"), stream(freopen(P, Q, f)), 0);
    TRY("freopen64", say(P, "file"); say(Q, "r"); f = fopen("/dev/null", "r"), stream(freopen64(P, Q, f)), 0);
    TRY("ftok", say(P, "file"), ftok(P, 3) != -1, 0);
    glob_t g;
    TRY("glob", say(P, "fil*"), glob(P, 0, NULL, &g), g.gl_pathc == 1 ? (globfree(&g), 1) : 0);
    TRY("glob64", say(P, "file"), glob64(P, 0, NULL, (glob64_t *)&g), g.gl_pathc == 1 ? (globfree(&g), 1) : 0);
    TRY("link", say(P, "file"); say(Q, "made"), link(P, Q), !unlink("made"));
    TRY("linkat", say(P, "file"); say(Q, "made"), linkat(place, P, place, Q, 0), !unlink("made"));
    TRY("symlink", say(P, "file"); say(Q, "made"), symlink(P, Q), !unlink("made"));
    TRY("symlinkat", say(P, "file"); say(Q, "made"), symlinkat(P, place, Q), !unlink("made"));
    TRY("mkdir", say(P, "made"), mkdir(P, 0700), !rmdir("made"));
    TRY("mkdirat", say(P, "made"), mkdirat(place, P, 0700), !rmdir("made"));
    TRY("rmdir", say(P, "made"); mkdir("made", 0700), rmdir(P), 0);
    TRY("mkdtemp", say(P, "madeXXXXXX"), mkdtemp(P) == P, !rmdir(P));
    TRY("mkstemp", say(P, "madeXXXXXX"), opened(mkstemp(P)), !unlink(P));
    TRY("mkstemp64", say(P, "madeXXXXXX"), opened(mkstemp64(P)), !unlink(P));
    TRY("mkostemp", say(P, "madeXXXXXX"), opened(mkostemp(P, 0)), !unlink(P));
    TRY("mkostemp64", say(P, "madeXXXXXX"), opened(mkostemp64(P, 0)), !unlink(P));
    TRY("mkstemps", say(P, "madeXXXXXX.c"), opened(mkstemps(P, 2)), !unlink(P));
    TRY("mkstemps64", say(P, "madeXXXXXX.c"), opened(mkstemps64(P, 2)), !unlink(P));
    TRY("mkostemps", say(P, "madeXXXXXX.c"), opened(mkostemps(P, 2, 0)), !unlink(P));
    TRY("mkostemps64", say(P, "madeXXXXXX.c"), opened(mkostemps64(P, 2, 0)), !unlink(P));
    TRY("mkfifo", say(P, "made"), mkfifo(P, 0600), !unlink("made"));
    TRY("mkfifoat", say(P, "made"), mkfifoat(place, P, 0600), !unlink("made"));
    TRY("mknod", say(P, "made"), mknod(P, S_IFIFO | 0600, 0), !unlink("made"));
    TRY("mknodat", say(P, "made"), mknodat(place, P, S_IFIFO | 0600, 0), !unlink("made"));
    TRY("mount", say(P, "none"); say(Q, "none"), mount(P, Q, "tmpfs", 0, NULL), 0);
    TRY("umount", say(P, "none"), umount(P), 0);
    TRY("umount2", say(P, "none"), umount2(P, 0), 0);
    TRY("swapon", say(P, "none"), swapon(P, 0), 0);
    TRY("swapoff", say(P, "none"), swapoff(P), 0);
    DIR *d;
    TRY("setmntent", say(P, "file"); say(Q, "r"), stream(setmntent(P, Q)), 0);
    TRY("catopen", say(P, "./none"), (long)catopen(P, 0), 0);
    TRY("opendir", say(P, "."), (d = opendir(P)) && !closedir(d), 0);
    struct dirent **list;
    TRY("scandir", say(P, "empty"), scandir(P, &list, NULL, NULL), 0);
    TRY("scandir64", say(P, "empty"), scandir64(P, (struct dirent64 ***)&list, NULL, NULL), 0);
    TRY("scandirat", say(P, "empty"), scandirat(place, P, &list, NULL, NULL), 0);
    TRY("pathconf", say(P, "file"), pathconf(P, _PC_LINK_MAX) > 0, 0);
    TRY("remove", say(P, "made"); opened(creat("made", 0600)), remove(P), 0);
    TRY("unlink", say(P, "made"); opened(creat("made", 0600)), unlink(P), 0);
    TRY("unlinkat", say(P, "made"); opened(creat("made", 0600)), unlinkat(place, P, 0), 0);
    TRY("rename", say(P, "file"); say(Q, "made"), rename(P, Q), rename("made", "file"));
    TRY("renameat", say(P, "file"); say(Q, "made"), renameat(place, P, place, Q), rename("made", "file"));
    TRY("renameat2", say(P, "file"); say(Q, "made"), renameat2(place, P, place, Q, 0), rename("made", "file"));
    TRY("truncate", say(P, "file"), truncate(P, 5), !stat("file", &s) ? s.st_size : -1);
    TRY("truncate64", say(P, "file"), truncate64(P, 6), !stat("file", &s) ? s.st_size : -1);
    struct statvfs v;
    TRY("statvfs", say(P, "file"), statvfs(P, &v), 0);
    TRY("statvfs64", say(P, "file"), statvfs64(P, (struct statvfs64 *)&v), 0);
#define TIMES (AT(long, Q)[0] = 1000, AT(long, Q)[2] = 2000)
    TRY("utime", say(P, "file"); AT(long, Q)[0] = AT(long, Q)[1] = 2000, utime(P, AT(struct utimbuf, Q)), !stat("file", &s) ? s.st_mtime : -1);
    TRY("utimes", say(P, "file"); TIMES, utimes(P, AT(struct timeval, Q)), !stat("file", &s) ? s.st_mtime : -1);
    TRY("lutimes", say(P, "file"); TIMES, lutimes(P, AT(struct timeval, Q)), !stat("file", &s) ? s.st_mtime : -1);
    TRY("futimesat", say(P, "file"); TIMES, futimesat(place, P, AT(struct timeval, Q)), !stat("file", &s) ? s.st_mtime : -1);
    TRY("utimensat", say(P, "file"); TIMES, utimensat(place, P, AT(struct timespec, Q), 0), !stat("file", &s) ? s.st_mtime : -1);
    TRY("futimens", TIMES, futimens(file, AT(struct timespec, Q)), !fstat(file, &s) ? s.st_mtime : -1);
    TRY("futimes", TIMES, futimes(file, AT(struct timeval, Q)), !fstat(file, &s) ? s.st_mtime : -1);
    TRY("stat", say(Q, "file"), stat(Q, AT(struct stat, P)), AT(struct stat, P)->st_size);
    TRY("stat64", say(Q, "file"), stat64(Q, AT(struct stat64, P)), AT(struct stat64, P)->st_size);
    TRY("lstat", say(Q, "file"), lstat(Q, AT(struct stat, P)), AT(struct stat, P)->st_size);
    TRY("fstat", , fstat(file, AT(struct stat, P)), AT(struct stat, P)->st_size);
    TRY("fstatat", say(Q, "file"), fstatat(place, Q, AT(struct stat, P), 0), AT(struct stat, P)->st_size);
    TRY("statx", say(Q, "file"), statx(place, Q, 0, STATX_SIZE, AT(struct statx, P)), AT(struct statx, P)->stx_size);
    TRY("statfs", say(Q, "file"), statfs(Q, AT(struct statfs, P)), AT(struct statfs, P)->f_bsize);
    TRY("fstatfs", , fstatfs(file, AT(struct statfs, P)), AT(struct statfs, P)->f_bsize);
    TRY("readlink", say(Q, "link"), readlink(Q, P, 100), P[0]);
    TRY("readlinkat", say(Q, "link"), readlinkat(place, Q, P, 100), P[0]);
    TRY("getcwd", , getcwd(P, 700) == P, P[0]);
    TRY("setxattr", say(P, "file"); say(P + 100, "user.look"); say(Q, "value"), setxattr(P, P + 100, Q, 5, 0), 0);
    TRY("lsetxattr", say(P, "file"); say(P + 100, "user.look"); say(Q, "value"), lsetxattr(P, P + 100, Q, 5, 0), 0);
    TRY("fsetxattr", say(P + 100, "user.look"); say(Q, "value"), fsetxattr(file, P + 100, Q, 5, 0), 0);
    TRY("getxattr", say(P, "file"); say(P + 100, "user.look"), getxattr(P, P + 100, Q, 100), Q[0]);
    TRY("lgetxattr", say(P, "file"); say(P + 100, "user.look"), lgetxattr(P, P + 100, Q, 100), Q[0]);
    TRY("fgetxattr", say(P + 100, "user.look"), fgetxattr(file, P + 100, Q, 100), Q[0]);
    TRY("listxattr", say(P, "file"), listxattr(P, Q, 700) >= 0, 0);
    TRY("llistxattr", say(P, "file"), llistxattr(P, Q, 700) >= 0, 0);
    TRY("flistxattr", , flistxattr(file, Q, 700) >= 0, 0);
    TRY("removexattr", say(P, "file"); say(Q, "user.look"), removexattr(P, Q), fsetxattr(file, "user.look", "x", 1, 0));
    TRY("lremovexattr", say(P, "file"); say(Q, "user.look"), lremovexattr(P, Q), fsetxattr(file, "user.look", "x", 1, 0));
    TRY("fremovexattr", say(Q, "user.look"), fremovexattr(file, Q), 0);
    int id;
    TRY("name_to_handle_at", say(Q, "file"); AT(struct file_handle, P)->handle_bytes = 128,
        name_to_handle_at(place, Q, AT(struct file_handle, P), &id, 0), 0);
    long base;
    int listed = open("empty", O_RDONLY | O_DIRECTORY);
    TRY("getdirentries", , getdirentries(listed, P, 600, &base) > 0, AT(struct dirent64, P)->d_ino != 0);
    close(listed);
}

static int more[2];

static void descriptors(void)
{
    int queue = epoll_create1(0), moved[2];
    TRY("epoll_ctl", AT(struct epoll_event, P)->events = EPOLLIN, epoll_ctl(queue, EPOLL_CTL_ADD, more[0], AT(struct epoll_event, P)), 0);
    TRY("epoll_wait", , epoll_wait(queue, AT(struct epoll_event, P), 4, 1000), AT(struct epoll_event, P)->events);
    TRY("epoll_pwait", , epoll_pwait(queue, AT(struct epoll_event, P), 4, 1000, NULL), AT(struct epoll_event, P)->events);
    close(queue);
    TRY("poll", *AT(struct pollfd, P) = ((struct pollfd){more[0], POLLIN, 0}), poll(AT(struct pollfd, P), 1, 1000), AT(struct pollfd, P)->revents);
    TRY("ppoll", *AT(struct pollfd, P) = ((struct pollfd){more[0], POLLIN, 0}); AT(struct timespec, Q)->tv_sec = 1,
        ppoll(AT(struct pollfd, P), 1, AT(struct timespec, Q), NULL), AT(struct pollfd, P)->revents);
    TRY("select", FD_SET(more[0], AT(fd_set, P)); AT(struct timeval, Q)->tv_sec = 1,
        select(more[0] + 1, AT(fd_set, P), NULL, NULL, AT(struct timeval, Q)), !!FD_ISSET(more[0], AT(fd_set, P)));
    TRY("pselect", FD_SET(more[0], AT(fd_set, P)); AT(struct timespec, Q)->tv_sec = 1,
        pselect(more[0] + 1, AT(fd_set, P), NULL, NULL, AT(struct timespec, Q), NULL), !!FD_ISSET(more[0], AT(fd_set, P)));
    TRY("fcntl", AT(struct flock, P)->l_type = F_WRLCK, fcntl(file, F_GETLK, AT(struct flock, P)), AT(struct flock, P)->l_type == F_UNLCK);
    TRY("pipe", , pipe(AT(int, P)), opened(AT(int, P)[0]) + opened(AT(int, P)[1]));
    TRY("pipe2", , pipe2(AT(int, P), O_CLOEXEC), opened(AT(int, P)[0]) + opened(AT(int, P)[1]));
    TRY("socketpair", , socketpair(AF_UNIX, SOCK_STREAM, 0, AT(int, P)), opened(AT(int, P)[0]) + opened(AT(int, P)[1]));
    int e = eventfd(5, 0);
    TRY("eventfd_read", , eventfd_read(e, AT(eventfd_t, P)), *AT(eventfd_t, P));
    close(e);
    if (pipe(moved))
        exit(2);
    int out = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0600);
    TRY("sendfile", ftruncate(out, 0); lseek(out, 0, SEEK_SET); *AT(off_t, P) = 1, sendfile(out, file, AT(off_t, P), 3), *AT(off_t, P) + 10 * lseek(out, 0, SEEK_END));
    TRY("sendfile64", ftruncate(out, 0); lseek(out, 0, SEEK_SET); *AT(off_t, P) = 1, sendfile64(out, file, AT(off_t, P), 3), *AT(off_t, P) + 10 * lseek(out, 0, SEEK_END));
    TRY("copy_file_range", ftruncate(out, 0); *AT(off64_t, P) = 1; *AT(off64_t, Q) = 2,
        copy_file_range(file, AT(off64_t, P), out, AT(off64_t, Q), 3, 0), *AT(off64_t, P) + 10 * *AT(off64_t, Q));
    TRY("splice", *AT(off64_t, P) = 1, splice(file, AT(off64_t, P), moved[1], NULL, 3, 0), *AT(off64_t, P));
    TRY("splice to a file", *AT(off64_t, P) = 1, splice(moved[0], NULL, out, AT(off64_t, P), 3, 0), *AT(off64_t, P));
    close(out);
    close(moved[0]);
    close(moved[1]);
    TRY("inotify_add_watch", e = inotify_init(); say(P, "file"), inotify_add_watch(e, P, IN_MODIFY), opened(e));
    TRY("fanotify_mark", say(P, "none"), fanotify_mark(-1, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, P), 0);
    TRY("memfd_create", say(P, "look"), opened(memfd_create(P, 0)), 0);
    TRY("signalfd", sigaddset(AT(sigset_t, P), SIGUSR2), opened(signalfd(-1, AT(sigset_t, P), 0)), 0);
    e = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec first = {.it_value.tv_sec = 5000};
    TRY("timerfd_settime", timerfd_settime(e, 0, &first, NULL); AT(struct itimerspec, P)->it_value.tv_sec = 1000,
        timerfd_settime(e, 0, AT(struct itimerspec, P), AT(struct itimerspec, Q)), (AT(struct itimerspec, Q)->it_value.tv_sec + 50) / 100);
    TRY("timerfd_gettime", , timerfd_gettime(e, AT(struct itimerspec, P)), (AT(struct itimerspec, P)->it_value.tv_sec + 50) / 100);
    close(e);
    TRY("openpty", , openpty(AT(int, P), AT(int, P + 4), P + 100, NULL, NULL), P[100]);
    TRY("ttyname_r", , ttyname_r(AT(int, P)[1], Q, 100) == 0 || AT(int, P)[1] == 0, 0);
    int master = -1, slave = -1;
    if (!openpty(&master, &slave, NULL, NULL, NULL)) {
        TRY("ttyname_r", , ttyname_r(slave, P, 100), P[0]);
        close(master);
        close(slave);
    }
}

static void sockets(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = offsetof(struct sockaddr_un, sun_path) + 1 + sprintf(name.sun_path + 1, "look-%d", (int)getpid());
    int door = socket(AF_UNIX, SOCK_STREAM, 0), client;
    TRY("bind", memcpy(P, &name, length), bind(door, AT(struct sockaddr, P), length), listen(door, 5));
    TRY("connect", client = socket(AF_UNIX, SOCK_STREAM, 0); memcpy(P, &name, length), connect(client, AT(struct sockaddr, P), length), 0);
    TRY("accept", *AT(socklen_t, Q) = 100, opened(accept(door, AT(struct sockaddr, P), AT(socklen_t, Q))), *AT(socklen_t, Q));
    close(client);
    client = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(client, (struct sockaddr *)&name, length))
        exit(2);
    TRY("accept4", *AT(socklen_t, Q) = 100, opened(accept4(door, AT(struct sockaddr, P), AT(socklen_t, Q), SOCK_CLOEXEC)), *AT(socklen_t, Q));
    TRY("getsockname", *AT(socklen_t, Q) = 100, getsockname(door, AT(struct sockaddr, P), AT(socklen_t, Q)), *AT(socklen_t, Q) == (socklen_t)length);
    TRY("getpeername", *AT(socklen_t, Q) = 100, getpeername(client, AT(struct sockaddr, P), AT(socklen_t, Q)), *AT(socklen_t, Q) == (socklen_t)length);
    close(client);
    TRY("setsockopt", *AT(int, P) = 1, setsockopt(door, SOL_SOCKET, SO_PASSCRED, P, 4), 0);
    TRY("setsockopt with a filter", *AT(struct sock_filter, Q) = ((struct sock_filter){BPF_RET | BPF_K, 0, 0, 0xffff});
        *AT(struct sock_fprog, P) = ((struct sock_fprog){1, AT(struct sock_filter, Q)}),
        setsockopt(door, SOL_SOCKET, SO_ATTACH_FILTER, P, sizeof(struct sock_fprog)), (AT(struct sock_fprog, P)->filter = NULL, 0));
    close(door);
    TRY("mq_unlink", say(P, "/look-none"), mq_unlink(P), 0);
    snprintf(name.sun_path, 60, "/look-%d", (int)getpid());
    mqd_t queue = -1;
    TRY("mq_open", say(P, name.sun_path); AT(struct mq_attr, Q)->mq_maxmsg = 2; AT(struct mq_attr, Q)->mq_msgsize = 10,
        (queue = mq_open(P, O_RDWR | O_CREAT, 0600, AT(struct mq_attr, Q))) >= 0, 0);
    TRY("mq_getattr", , mq_getattr(queue, AT(struct mq_attr, P)), AT(struct mq_attr, P)->mq_maxmsg);
    TRY("mq_setattr", AT(struct mq_attr, P)->mq_flags = O_NONBLOCK, mq_setattr(queue, AT(struct mq_attr, P), AT(struct mq_attr, Q)), AT(struct mq_attr, Q)->mq_flags);
    TRY("mq_notify", AT(struct sigevent, P)->sigev_notify = SIGEV_NONE, mq_notify(queue, AT(struct sigevent, P)), 0);
    mq_close(queue);
    mq_unlink(name.sun_path);
    int id = msgget(IPC_PRIVATE, 0600);
    TRY("msgctl", , msgctl(id, IPC_STAT, AT(struct msqid_ds, P)), AT(struct msqid_ds, P)->msg_perm.mode);
    msgctl(id, IPC_RMID, NULL);
    id = shmget(IPC_PRIVATE, 4096, 0600);
    TRY("shmctl", , shmctl(id, IPC_STAT, AT(struct shmid_ds, P)), AT(struct shmid_ds, P)->shm_segsz);
    shmctl(id, IPC_RMID, NULL);
    id = semget(IPC_PRIVATE, 200, 0600);
    TRY("semop", *AT(struct sembuf, P) = ((struct sembuf){0, 3, 0}), semop(id, AT(struct sembuf, P), 1), semctl(id, 0, GETVAL));
    TRY("semtimedop", *AT(struct sembuf, P) = ((struct sembuf){0, -3, 0}); AT(struct timespec, Q)->tv_sec = 1,
        semtimedop(id, AT(struct sembuf, P), 1, AT(struct timespec, Q)), semctl(id, 0, GETVAL));
    TRY("semctl", AT(short, P)[150] = 7, semctl(id, 0, SETALL, P), semctl(id, 150, GETVAL));
    TRY("semctl", , semctl(id, 0, GETALL, P), AT(short, P)[150]);
    semctl(id, 0, IPC_RMID);
}

/* A child that has ended, with 3. */
static int child(void)
{
    pid_t pid = fork();
    if (!pid)
        _exit(3);
    if (pid < 0)
        exit(2);
    return pid;
}

extern char **environ;

/* The strings of a shell's command, and the array of them, behind P. */
static char **command(const char *text)
{
    char **v = AT(char *, Q);
    v[0] = say(P + 64, "sh"), v[1] = say(P + 96, "-c"), v[2] = say(P + 128, text), v[3] = NULL;
    v[4] = say(P + 256, "LOOK=6"), v[5] = NULL;
    say(P, "/bin/sh");
    return v;
}

/* Pointers differ from run to run. */
static long forgotten(void)
{
    memset(Q, 0, 48);
    return 0;
}

#define EXECUTED(call)                                                                                                 \
    ({                                                                                                                 \
        int status_ = -1;                                                                                              \
        pid_t pid_ = vfork();                                                                                          \
        if (!pid_) {                                                                                                   \
            call;                                                                                                      \
            _exit(errno);                                                                                              \
        }                                                                                                              \
        waitpid(pid_, &status_, 0);                                                                                    \
        status_;                                                                                                       \
    })

static void processes(void)
{
    int pid, status;
    FILE *f;
    char line[20] = "";
    TRY("execv", command("exit 5"), EXECUTED(execv(P, AT(char *, Q))), forgotten());
    TRY("execve", command("exit $LOOK"), EXECUTED(execve(P, AT(char *, Q), AT(char *, Q) + 4)), forgotten());
    TRY("execvp", command("exit 5"), EXECUTED(execvp(P + 64, AT(char *, Q))), forgotten());
    TRY("execvpe", command("exit $LOOK"), EXECUTED(execvpe(P + 64, AT(char *, Q), AT(char *, Q) + 4)), forgotten());
    TRY("execl", command("exit 5"), EXECUTED(execl(P, P + 64, P + 96, P + 128, NULL)), forgotten());
    TRY("execl of many", command("exit $((5 + $#))"), EXECUTED(execl(P, P + 64, P + 96, P + 128, "a", "b", "c", "d", P + 64, NULL)), forgotten());
    TRY("execlp", command("exit 5"), EXECUTED(execlp(P + 64, P + 64, P + 96, P + 128, NULL)), forgotten());
    TRY("execle", command("exit $LOOK"), EXECUTED(execle(P, P + 64, P + 96, P + 128, NULL, AT(char *, Q) + 4)), forgotten());
    TRY("execle of many", command("exit $LOOK$#"), EXECUTED(execle(P, P + 64, P + 96, P + 128, "a", "b", "c", "d", NULL, AT(char *, Q) + 4)), forgotten());
    TRY("execl of nothing", say(P, "none"), EXECUTED(execl(P, P, P, P, P, P, P, P, NULL)), 0);
    int shell = open("/bin/sh", O_RDONLY);
    TRY("fexecve", command("exit $LOOK"), EXECUTED(fexecve(shell, AT(char *, Q), AT(char *, Q) + 4)), forgotten());
    TRY("execveat", command("exit $LOOK"), EXECUTED(execveat(-1, P, AT(char *, Q), AT(char *, Q) + 4, 0)), forgotten());
    close(shell);
    TRY("execv of nothing", say(P, "none"), EXECUTED(execv(P, AT(char *, Q))), 0);
    TRY("system", say(P, "exit 5"), system(P), 0);
    TRY("system with an environment", say(P, "LOOK=6"); putenv(P), system("exit $LOOK"), unsetenv("LOOK"));
    TRY("popen", say(P, "echo look"); say(Q, "r"), (f = popen(P, Q)) != NULL, fgets(line, 20, f) ? line[0] + pclose(f) : -1);
    TRY("wait", child(), wait(AT(int, P)) > 0, *AT(int, P));
    TRY("waitpid", pid = child(), waitpid(pid, AT(int, P), 0) == pid, *AT(int, P));
    TRY("wait3", child(), wait3(AT(int, P), 0, AT(struct rusage, Q)) > 0, *AT(int, P));
    TRY("wait4", pid = child(), wait4(pid, AT(int, P), 0, AT(struct rusage, Q)) == pid, *AT(int, P));
    TRY("waitid", pid = child(), waitid(P_PID, pid, AT(siginfo_t, P), WEXITED), AT(siginfo_t, P)->si_status);
    TRY("forkpty", , (pid = forkpty(AT(int, P), P + 100, NULL, NULL)) ? waitpid(pid, &status, 0) == pid : (_exit(4), 0), close(*AT(int, P)) * 0 + (memset(P, 0, 200), 0));
    TRY("getgroups", , getgroups(100, AT(gid_t, P)) >= 0, 0);
    TRY("setgroups", int n_ = getgroups(100, AT(gid_t, P)), setgroups(n_, AT(gid_t, P)), 0);
    TRY("getresuid", , getresuid(AT(uid_t, P), AT(uid_t, P) + 1, AT(uid_t, Q)), *AT(uid_t, Q) == getuid());
    TRY("getresgid", , getresgid(AT(gid_t, P), AT(gid_t, P) + 1, AT(gid_t, Q)), *AT(gid_t, Q) == getgid());
    TRY("getrusage", , getrusage(RUSAGE_SELF, AT(struct rusage, P)), AT(struct rusage, P)->ru_maxrss > 0);
    TRY("getrlimit", , getrlimit(RLIMIT_NOFILE, AT(struct rlimit, P)), AT(struct rlimit, P)->rlim_cur);
    TRY("setrlimit", getrlimit(RLIMIT_NOFILE, AT(struct rlimit, P)), setrlimit(RLIMIT_NOFILE, AT(struct rlimit, P)), 0);
    TRY("prlimit", getrlimit(RLIMIT_CORE, AT(struct rlimit, P)), prlimit(0, RLIMIT_CORE, AT(struct rlimit, P), AT(struct rlimit, Q)), AT(struct rlimit, Q)->rlim_cur);
    TRY("prctl", say(P, "look"), prctl(PR_SET_NAME, P), 0);
    TRY("prctl", , prctl(PR_GET_NAME, P), P[0]);
    TRY("prctl", *AT(int, P) = 7, prctl(PR_GET_PDEATHSIG, P), *AT(int, P));
    TRY("pthread_getname_np", , pthread_getname_np(pthread_self(), P, 20), P[0]);
    TRY("pthread_setname_np", say(P, "pointers"), pthread_setname_np(pthread_self(), P), 0);
    TRY("sched_getaffinity", , sched_getaffinity(0, sizeof(cpu_set_t), AT(cpu_set_t, P)), CPU_COUNT(AT(cpu_set_t, P)) > 0);
    TRY("sched_setaffinity", sched_getaffinity(0, sizeof(cpu_set_t), AT(cpu_set_t, P)), sched_setaffinity(0, sizeof(cpu_set_t), AT(cpu_set_t, P)), 0);
    TRY("pthread_getaffinity_np", , pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), AT(cpu_set_t, P)), CPU_COUNT(AT(cpu_set_t, P)) > 0);
    TRY("pthread_setaffinity_np", sched_getaffinity(0, sizeof(cpu_set_t), AT(cpu_set_t, P)), pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), AT(cpu_set_t, P)), 0);
    TRY("pthread_setschedparam", , pthread_setschedparam(pthread_self(), SCHED_OTHER, AT(struct sched_param, P)), 0);
    TRY("sched_getparam", *AT(int, P) = 7, sched_getparam(0, AT(struct sched_param, P)), *AT(int, P));
    TRY("sched_setparam", , sched_setparam(0, AT(struct sched_param, P)), 0);
    TRY("sched_setscheduler", , sched_setscheduler(0, SCHED_OTHER, AT(struct sched_param, P)), 0);
    TRY("sched_rr_get_interval", , sched_rr_get_interval(0, AT(struct timespec, P)), AT(struct timespec, P)->tv_sec);
    TRY("times", , times(AT(struct tms, P)) != -1, AT(struct tms, P)->tms_utime >= 0);
    TRY("process_madvise", *AT(struct iovec, P) = ((struct iovec){P, 0}), process_madvise(-1, AT(struct iovec, P), 1, MADV_COLD, 0), (AT(struct iovec, P)->iov_base = NULL, 0));
}

static void signals(void)
{
    sigset_t usual, one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, &usual);
    TRY("sigpending", raise(SIGUSR1), sigpending(AT(sigset_t, P)), sigismember(AT(sigset_t, P), SIGUSR1));
    TRY("sigwaitinfo", *AT(sigset_t, P) = one, sigwaitinfo(AT(sigset_t, P), AT(siginfo_t, Q)), AT(siginfo_t, Q)->si_signo);
    TRY("sigtimedwait", *AT(sigset_t, P) = one; AT(struct timespec, P + 200)->tv_sec = 1; raise(SIGUSR1),
        sigtimedwait(AT(sigset_t, P), AT(siginfo_t, Q), AT(struct timespec, P + 200)), AT(siginfo_t, Q)->si_signo);
    TRY("sigwait", *AT(sigset_t, P) = one; raise(SIGUSR1), sigwait(AT(sigset_t, P), AT(int, Q)), *AT(int, Q));
    TRY("sigprocmask", sigaddset(AT(sigset_t, P), SIGUSR2), sigprocmask(SIG_BLOCK, AT(sigset_t, P), AT(sigset_t, Q)),
        10 * sigismember(AT(sigset_t, Q), SIGUSR1) + sigismember(AT(sigset_t, Q), SIGUSR2));
    TRY("sigprocmask back", *AT(sigset_t, P) = one, sigprocmask(SIG_SETMASK, AT(sigset_t, P), NULL), 0);
    TRY("pthread_sigmask", sigaddset(AT(sigset_t, P), SIGUSR2), pthread_sigmask(SIG_BLOCK, AT(sigset_t, P), AT(sigset_t, Q)),
        10 * sigismember(AT(sigset_t, Q), SIGUSR1) + sigismember(AT(sigset_t, Q), SIGUSR2));
    TRY("pthread_sigmask back", *AT(sigset_t, P) = one, pthread_sigmask(SIG_UNBLOCK, AT(sigset_t, P), NULL), 0);
    TRY("sigaction", AT(struct sigaction, P)->sa_handler = nothing, sigaction(SIGUSR1, AT(struct sigaction, P), AT(struct sigaction, Q)), (memset(P, 0, WINDOW), 0));
    sigprocmask(SIG_SETMASK, &usual, NULL);
    TRY("sigaltstack", , sigaltstack(NULL, AT(stack_t, P)), (AT(stack_t, P)->ss_flags & SS_ONSTACK) + 0 * (memset(P, 0, 100), 0));
}

static void times_(void)
{
    struct timespec t;
    TRY("clock_gettime", AT(struct timespec, P)->tv_sec = -1, clock_gettime(CLOCK_PROCESS_CPUTIME_ID, AT(struct timespec, P)), AT(struct timespec, P)->tv_sec >= 0);
    TRY("clock_gettime", , clock_gettime(CLOCK_MONOTONIC, AT(struct timespec, P)), AT(struct timespec, P)->tv_sec > 0);
    TRY("clock_getres", , clock_getres(CLOCK_PROCESS_CPUTIME_ID, AT(struct timespec, P)), AT(struct timespec, P)->tv_nsec > 0);
    TRY("clock_settime", AT(struct timespec, P)->tv_nsec = 2000000000, clock_settime(CLOCK_REALTIME, AT(struct timespec, P)), 0);
    TRY("settimeofday", AT(struct timeval, P)->tv_usec = 2000000000, settimeofday(AT(struct timeval, P), NULL), 0);
    TRY("gettimeofday", , gettimeofday(AT(struct timeval, P), NULL), AT(struct timeval, P)->tv_sec > 0);
    TRY("nanosleep", AT(struct timespec, P)->tv_nsec = 1000, nanosleep(AT(struct timespec, P), AT(struct timespec, Q)), 0);
    TRY("thrd_sleep", AT(struct timespec, P)->tv_nsec = 1000, thrd_sleep(AT(struct timespec, P), AT(struct timespec, Q)), 0);
    TRY("clock_nanosleep", AT(struct timespec, P)->tv_nsec = 1000, clock_nanosleep(CLOCK_MONOTONIC, 0, AT(struct timespec, P), AT(struct timespec, Q)), 0);
    struct sigaction alarmed = {.sa_handler = nothing}, usual;
    struct itimerval soon = {.it_value.tv_usec = 5000, .it_interval.tv_usec = 5000}, never = {0};
    sigaction(SIGALRM, &alarmed, &usual);
    TRY("nanosleep interrupted", AT(struct timespec, P)->tv_sec = 5000; setitimer(ITIMER_REAL, &soon, NULL),
        nanosleep(AT(struct timespec, P), AT(struct timespec, Q)), (AT(struct timespec, Q)->tv_sec + 50) / 100);
    setitimer(ITIMER_REAL, &never, NULL);
    soon.it_value.tv_sec = 5000;
    TRY("setitimer", setitimer(ITIMER_REAL, &soon, NULL); AT(struct itimerval, P)->it_value.tv_sec = 1000,
        setitimer(ITIMER_REAL, AT(struct itimerval, P), AT(struct itimerval, Q)), (AT(struct itimerval, Q)->it_value.tv_sec + 50) / 100);
    TRY("getitimer", , getitimer(ITIMER_REAL, AT(struct itimerval, P)), (AT(struct itimerval, P)->it_value.tv_sec + 50) / 100);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &usual, NULL);
    timer_t timer;
    struct itimerspec first = {.it_value.tv_sec = 5000};
    TRY("timer_create", AT(struct sigevent, P)->sigev_notify = SIGEV_NONE, timer_create(CLOCK_MONOTONIC, AT(struct sigevent, P), AT(timer_t, Q)), (timer = *AT(timer_t, Q), memset(Q, 0, 8), 0));
    TRY("timer_settime", timer_settime(timer, 0, &first, NULL); AT(struct itimerspec, P)->it_value.tv_sec = 1000,
        timer_settime(timer, 0, AT(struct itimerspec, P), AT(struct itimerspec, Q)), (AT(struct itimerspec, Q)->it_value.tv_sec + 50) / 100);
    TRY("timer_gettime", , timer_gettime(timer, AT(struct itimerspec, P)), (AT(struct itimerspec, P)->it_value.tv_sec + 50) / 100);
    timer_delete(timer);
    TRY("adjtimex", , adjtimex(AT(struct timex, P)) >= 0, AT(struct timex, P)->time.tv_sec > 0);
    TRY("ntp_adjtime", , ntp_adjtime(AT(struct timex, P)) >= 0, AT(struct timex, P)->time.tv_sec > 0);
    TRY("clock_adjtime", , clock_adjtime(CLOCK_REALTIME, AT(struct timex, P)) >= 0, AT(struct timex, P)->time.tv_sec > 0);
    (void)t;
}

static void machine(void)
{
    extern int capget(void *, void *), capset(void *, const void *), arch_prctl(int, unsigned long);
    TRY("uname", , uname(AT(struct utsname, P)), P[0]);
    TRY("sysinfo", , sysinfo(AT(struct sysinfo, P)), AT(struct sysinfo, P)->totalram > 0);
    TRY("getcpu", , getcpu(AT(unsigned, P), AT(unsigned, Q)), 0);
    TRY("klogctl", , klogctl(3, P, 100) > 0 || errno != EFAULT, 0);
    TRY("mincore", , mincore(other, 4096, (unsigned char *)P), P[0] & 1);
    TRY("arch_prctl", , arch_prctl(0x1003, (unsigned long)P), *AT(long, P) != 0);
    TRY("capget", AT(int, P)[0] = 0x20080522, capget(P, Q), 0);
    TRY("capset", AT(int, P)[0] = 0x20080522; capget(P, Q), capset(P, Q), 0);
    TRY("sethostname", , sethostname(P, 1000), 0);
    TRY("setdomainname", , setdomainname(P, 1000), 0);
}

/* A function that headers do not declare, or that the linker would warn of or not find: all of them take words. */
static long (*named(const char *name))(long, ...)
{
    long (*function)(long, ...) = (long (*)(long, ...))dlsym(RTLD_DEFAULT, name);
    if (!function)
        printf("no %s\n", name), exit(2);
    return function;
}
#define OLD(name, before, seen, ...) TRY(#name, before, (int)named(#name)(__VA_ARGS__), seen)
#define WORD(at) ((long)(at))

/* What older programs are linked with, and programs that are checked while they run. */
static void other_names(void)
{
    TRY("__open_2", say(P, "file"), opened(named("__open_2")(WORD(P), O_RDONLY)), 0);
    TRY("__open64_2", say(P, "file"), opened(named("__open64_2")(WORD(P), O_RDONLY)), 0);
    TRY("__openat_2", say(P, "file"), opened(named("__openat_2")(place, P, O_RDONLY)), 0);
    TRY("__openat64_2", say(P, "file"), opened(named("__openat64_2")(place, P, O_RDONLY)), 0);
    OLD(__mq_open_2, say(P, "/look-none"), 0, WORD(P), O_RDONLY);
    OLD(__xstat, say(Q, "file"), AT(struct stat, P)->st_size, 1, Q, P);
    OLD(__xstat64, say(Q, "file"), AT(struct stat, P)->st_size, 1, Q, P);
    OLD(__lxstat, say(Q, "file"), AT(struct stat, P)->st_size, 1, Q, P);
    OLD(__lxstat64, say(Q, "file"), AT(struct stat, P)->st_size, 1, Q, P);
    OLD(__fxstat, , AT(struct stat, P)->st_size, 1, file, P);
    OLD(__fxstat64, , AT(struct stat, P)->st_size, 1, file, P);
    OLD(__fxstatat, say(Q, "file"), AT(struct stat, P)->st_size, 1, place, Q, P, 0);
    OLD(__fxstatat64, say(Q, "file"), AT(struct stat, P)->st_size, 1, place, Q, P, 0);
    OLD(lstat64, say(Q, "file"), AT(struct stat, P)->st_size, WORD(Q), P);
    OLD(fstat64, , AT(struct stat, P)->st_size, file, P);
    OLD(fstatat64, say(Q, "file"), AT(struct stat, P)->st_size, place, Q, P, 0);
    OLD(statfs64, say(Q, "file"), AT(struct statfs, P)->f_bsize, WORD(Q), P);
    OLD(fstatfs64, , AT(struct statfs, P)->f_bsize, file, P);
    OLD(getrlimit64, , AT(struct rlimit, P)->rlim_cur, RLIMIT_NOFILE, P);
    OLD(fcntl64, AT(struct flock, P)->l_type = F_WRLCK, AT(struct flock, P)->l_type == F_UNLCK, file, F_GETLK, P);
    static dev_t device;
    OLD(__xmknod, say(P, "made"), unlink("made"), 0, P, S_IFIFO | 0600, &device);
    OLD(__xmknodat, say(P, "made"), unlink("made"), 0, place, P, S_IFIFO | 0600, &device);
    TRY("mktemp", say(P, "madeXXXXXX"), named("mktemp")(WORD(P)) == WORD(P), P[0]);
    TRY("tempnam", say(P, "empty"), ({ char *n_ = (char *)named("tempnam")(WORD(P), "x"); long c_ = n_ ? n_[0] : 0; free(n_); c_; }), 0);
    TRY("__getcwd_chk", , named("__getcwd_chk")(WORD(P), 700L, 700L) == WORD(P), P[0]);
    OLD(__readlink_chk, say(Q, "link"), P[0], WORD(Q), P, 100L, 100L);
    OLD(__readlinkat_chk, say(Q, "link"), P[0], place, Q, P, 100L, 100L);
    TRY("__getgroups_chk", , (int)named("__getgroups_chk")(100, P, 400L) >= 0, 0);
    OLD(__poll_chk, *AT(struct pollfd, P) = ((struct pollfd){more[0], POLLIN, 0}), AT(struct pollfd, P)->revents, WORD(P), 1L, 1000, sizeof(struct pollfd));
    OLD(__ppoll_chk, *AT(struct pollfd, P) = ((struct pollfd){more[0], POLLIN, 0}), AT(struct pollfd, P)->revents, WORD(P), 1L, NULL, NULL, sizeof(struct pollfd));
    int master = -1, slave = -1;
    if (!openpty(&master, &slave, NULL, NULL, NULL)) {
        OLD(__ttyname_r_chk, , P[0], slave, P, 100L, 100L);
        close(master);
        close(slave);
    }
    long base;
    int listed = open("empty", O_RDONLY | O_DIRECTORY);
    TRY("getdirentries64", , named("getdirentries64")(listed, P, 600L, &base) > 0, AT(struct dirent64, P)->d_ino != 0);
    close(listed);
    struct dirent **list;
    OLD(scandirat64, say(P, "empty"), 0, place, P, &list, NULL, NULL);
    OLD(pivot_root, say(P, "none"); say(Q, "none"), 0, WORD(P), Q);
    OLD(quotactl, say(P, "none"), 0, 0x80000700L << 8, P, 0L, Q);
    int id, handle;
    OLD(open_by_handle_at, AT(int, P)[0] = 128; name_to_handle_at(place, "file", AT(struct file_handle, P), &id, 0), 0, -1, P, O_RDONLY);
    handle = socket(AF_INET, SOCK_STREAM, 0);
    OLD(bindresvport, *AT(short, P) = AF_INET, close(handle), handle, P);
    utmpname("utmp");
    opened(creat("utmp", 0600));
    TRY("pututxline", *AT(short, P) = 8; say(P + 40, "1"), named("pututxline")(WORD(P)) != 0, 0);
    TRY("pututline", *AT(short, P) = 8; say(P + 40, "1"), named("pututline")(WORD(P)) != 0, 0);
    struct stat s;
    unlink("wtmp");
    opened(creat("wtmp", 0600));
    TRY("updwtmp", say(P, "wtmp"), (named("updwtmp")(WORD(P), Q), 0), !stat("wtmp", &s) ? s.st_size : -1);
    TRY("updwtmpx", say(P, "wtmp"), (named("updwtmpx")(WORD(P), Q), 0), !stat("wtmp", &s) ? s.st_size : -1);
    pid_t pid = fork();
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(3);
    }
    int status;
    waitpid(pid, &status, 0);
    TRY("ptrace", , ptrace(PTRACE_GETSIGINFO, pid, 0, P), AT(siginfo_t, P)->si_signo);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

static void every(void)
{
    other_names();
    names();
    descriptors();
    sockets();
    processes();
    signals();
    times_();
    machine();
}

/* Buffers of streams, in blocks of their own: from then on the pages of these blocks stay accessible. */
static void streams(void)
{
    memset(P, 0, WINDOW);
    for (int kind = 0; kind < 3; kind++) {
        /* setbuf's buffer has BUFSIZ bytes. */
        if (kind == 2 && spot == 3)
            break;
        FILE *f = fopen("stream", "w+");
        if (kind == 0)
            setvbuf(f, P, _IOFBF, 1000);
        else if (kind == 1)
            setbuffer(f, P, 1000);
        else
            setbuf(f, P);
        fputs("some words", f);
        shut();
        printf("fflush %d%d%d: %d\n", memory, way, spot, fflush(f));
        shut();
        fputs(" and more", f);
        shut();
        printf("fclose %d, %d\n", fclose(f), access("stream", R_OK));
        char all[100] = "";
        f = fopen("stream", "r");
        setvbuf(f, P, _IOFBF, 1000);
        shut();
        printf("fgets: %s", fgets(all, sizeof all, f));
        fclose(f);
        printf(" %ld\n", intact());
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    file = begun(argv[1]);
    mkdir("empty", 0700);
    unlink("link");
    if (symlink("file", "link") || pipe(more) || write(more[1], "x", 1) != 1)
        return 2;
    place = open(".", O_RDONLY | O_DIRECTORY);
    places(atoi(argv[2]), atoi(argv[3]), every);
    places(atoi(argv[2]), atoi(argv[3]), streams);
    return 0;
}
