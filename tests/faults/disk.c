/* A disk that fails on command. Loaded with LD_PRELOAD; the control file ($FAULT_CONTROL) holds one line:

     KIND ERRNO SKIP COUNT PART

   KIND: any of the letters w (write, pwrite, writev), s (fsync, fdatasync), t (ftruncate), c (open with O_CREAT), r (rename, link);
   ERRNO: a number, or 0 for a slow call (10 ms); SKIP: calls that pass first; COUNT: calls that fail then (-1: all);
   PART: only paths that contain this text ("-": all). Only files under $FAULT_FOLDER are touched. An empty control file: no faults. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static long long seen;
static long long stamp = -1;
static char kinds[16], part[256];
static int number;
static long skip, count;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void load(void) {
    const char *control = getenv("FAULT_CONTROL");
    struct stat about;
    if (!control || stat(control, &about)) { kinds[0] = 0; return; }
    long long now = about.st_mtim.tv_sec * 1000000000LL + about.st_mtim.tv_nsec;
    if (now == stamp) return;
    stamp = now;
    seen = 0;
    kinds[0] = 0;
    int file = REAL(open)(control, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    char line[512];
    ssize_t size = read(file, line, sizeof line - 1);
    close(file);
    if (size <= 0) return;
    line[size] = 0;
    if (sscanf(line, "%15s %d %ld %ld %255s", kinds, &number, &skip, &count, part) != 5) kinds[0] = 0;
}

static int fails(char kind, const char *path) {
    const char *folder = getenv("FAULT_FOLDER");
    if (!folder || !path || strncmp(path, folder, strlen(folder))) return 0;
    load();
    if (!strchr(kinds, kind) || !kinds[0]) return 0;
    if (strcmp(part, "-") && !strstr(path, part)) return 0;
    long long mine = __sync_fetch_and_add(&seen, 1);
    if (mine < skip || (count >= 0 && mine >= skip + count)) return 0;
    if (!number) {
        struct timespec while_ = {0, 10000000};
        nanosleep(&while_, NULL);
        return 0;
    }
    errno = number;
    return 1;
}

static int fd_fails(char kind, int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return fails(kind, path);
}

static int at_fails(char kind, int folder, const char *name) {
    if (name[0] == '/') return fails(kind, name);
    char link[64], path[8192];
    ssize_t size;
    if (folder == AT_FDCWD) size = getcwd(path, 4096) ? (ssize_t)strlen(path) : -1;
    else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        size = readlink(link, path, 4095);
    }
    if (size <= 0) return 0;
    snprintf(path + size, sizeof path - size, "/%s", name);
    return fails(kind, path);
}

ssize_t write(int fd, const void *data, size_t size) { return fd_fails('w', fd) ? -1 : REAL(write)(fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return fd_fails('w', fd) ? -1 : REAL(pwrite)(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return fd_fails('w', fd) ? -1 : REAL(pwrite64)(fd, data, size, at); }
ssize_t writev(int fd, const struct iovec *parts, int n) { return fd_fails('w', fd) ? -1 : REAL(writev)(fd, parts, n); }
int fsync(int fd) { return fd_fails('s', fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fd_fails('s', fd) ? -1 : REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { return fd_fails('t', fd) ? -1 : REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return fd_fails('t', fd) ? -1 : REAL(ftruncate64)(fd, size); }
int rename(const char *from, const char *to) { return fails('r', to) ? -1 : REAL(rename)(from, to); }
int renameat(int a, const char *from, int b, const char *to) { return at_fails('r', b, to) ? -1 : REAL(renameat)(a, from, b, to); }
int link(const char *from, const char *to) { return fails('r', to) ? -1 : REAL(link)(from, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return at_fails('r', b, to) ? -1 : REAL(linkat)(a, from, b, to, flags); }
int mkdir(const char *path, mode_t mode) { return fails('c', path) ? -1 : REAL(mkdir)(path, mode); }

#define OPEN(name, first, given, before)                                  \
    int name(first given, int flags, ...) {                               \
        mode_t mode = 0;                                                  \
        if (flags & (O_CREAT | __O_TMPFILE)) {                            \
            va_list more;                                                 \
            va_start(more, flags);                                        \
            mode = va_arg(more, mode_t);                                  \
            va_end(more);                                                 \
        }                                                                 \
        if ((flags & O_CREAT) && before) return -1;                       \
        return 
#define NOTHING
OPEN(open, NOTHING, const char *path, fails('c', path)) REAL(open)(path, flags, mode); }
OPEN(open64, NOTHING, const char *path, fails('c', path)) REAL(open64)(path, flags, mode); }

int openat(int folder, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    if ((flags & O_CREAT) && at_fails('c', folder, path)) return -1;
    return REAL(openat)(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    if ((flags & O_CREAT) && at_fails('c', folder, path)) return -1;
    return REAL(openat64)(folder, path, flags, mode);
}
