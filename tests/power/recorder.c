/* Records what a process does to the files below one folder, and makes calls fail.
 *
 * Loaded by LD_PRELOAD. RECORDER_ROOT is the folder, RECORDER_LOG the file that takes
 * the operations, each with its data. The log is complete if replaying it gives the
 * files that are there: a call that changes a file and is not known here is logged as
 * unsupported, and the reader of the log refuses it.
 *
 * Shared memory of SQLite (-shm) is left out: it is mapped, never synced, and made
 * anew by the first process that opens the database.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_FDS 4096

enum {
  MARK = 1, CREATE, MKDIR, UNLINK, RMDIR, RENAME, WRITE, TRUNCATE, EXTEND, SYNC,
  SYNC_FAILED, UNSUPPORTED, OPEN
};

struct entry {
  uint8_t kind;
  uint8_t pad[3];
  uint32_t path_size, other_size, data_size;
  uint64_t inode, offset;
};

static char root[PATH_MAX];
static size_t root_size;
static int log_fd = -1;
static uint64_t inodes[MOST_FDS]; /* of the files that are recorded; 0 for others */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Faults: the calls whose kind is in the mask are counted; from the chosen one on,
   `many` of them fail. An error of 0 is a write that stops half-way, and one below 0 is
   the end of the process. */
static uint32_t fault_mask;
static long fault_at, fault_many, fault_seen, fault_made;
static int fault_error;

static void put(const void *data, size_t size) {
  const char *from = data;
  while (size) {
    long done = syscall(SYS_write, log_fd, from, size);
    if (done < 0) abort();
    from += done;
    size -= (size_t)done;
  }
}

static void record(int kind, const char *path, const char *other, uint64_t inode,
                   uint64_t offset, const void *data, size_t size) {
  if (log_fd < 0) return;
  struct entry head = {.kind = (uint8_t)kind, .inode = inode, .offset = offset};
  head.path_size = path ? (uint32_t)strlen(path) : 0;
  head.other_size = other ? (uint32_t)strlen(other) : 0;
  head.data_size = (uint32_t)size;
  put(&head, sizeof head);
  put(path, head.path_size);
  put(other, head.other_size);
  if (data) put(data, size);
}

/* For Python: a note in the log. */
void recorder_mark(const char *text, size_t size) {
  pthread_mutex_lock(&lock);
  record(MARK, NULL, NULL, 0, 0, text, size);
  pthread_mutex_unlock(&lock);
}

/* For Python: from the n-th call of these kinds on, so many fail. */
void recorder_fail(uint32_t kinds, long nth, long many, int error) {
  pthread_mutex_lock(&lock);
  fault_mask = kinds;
  fault_at = nth;
  fault_many = many;
  fault_error = error;
  fault_seen = fault_made = 0;
  pthread_mutex_unlock(&lock);
}

/* For Python: how many calls failed since then. */
long recorder_failed(void) { return fault_made; }

__attribute__((constructor)) static void begin(void) {
  const char *folder = getenv("RECORDER_ROOT"), *file = getenv("RECORDER_LOG");
  if (!folder || !file) return;
  snprintf(root, sizeof root, "%s", folder);
  root_size = strlen(root);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0) abort();
  log_fd = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 1000);
  syscall(SYS_close, fd);
  unsetenv("LD_PRELOAD"); /* what this process starts is not recorded */
}

/* The path below the root, or NULL for a file that is not recorded. */
static const char *below(int at, const char *path, char *whole) {
  if (log_fd < 0 || !path) return NULL;
  if (path[0] == '/') {
    snprintf(whole, PATH_MAX, "%s", path);
  } else {
    char folder[PATH_MAX] = "";
    if (at == AT_FDCWD) {
      if (!getcwd(folder, sizeof folder)) return NULL;
    } else {
      char link[64];
      snprintf(link, sizeof link, "/proc/self/fd/%d", at);
      ssize_t size = readlink(link, folder, sizeof folder - 1);
      if (size < 0) return NULL;
      folder[size] = 0;
    }
    if (strlen(folder) + strlen(path) + 2 > PATH_MAX) return NULL;
    strcpy(whole, folder);
    strcat(whole, "/");
    strcat(whole, path);
  }
  if (strncmp(whole, root, root_size) || (whole[root_size] && whole[root_size] != '/'))
    return NULL;
  size_t size = strlen(whole);
  while (size > root_size && whole[size - 1] == '/') whole[--size] = 0;
  if (size > 4 && !strcmp(whole + size - 4, "-shm")) return NULL;
  return whole + root_size + (whole[root_size] == '/');
}

static uint64_t inode_of(int fd) {
  return fd >= 0 && fd < MOST_FDS ? inodes[fd] : 0;
}

static void track(int fd, uint64_t inode) {
  if (fd >= 0 && fd < MOST_FDS) inodes[fd] = inode;
}

/* What a call of this kind must do instead: 0 nothing, 1 fail, 2 stop half-way. */
static int fault(int kind) {
  if (!(fault_mask >> kind & 1)) return 0;
  fault_seen++;
  if (fault_seen < fault_at || fault_seen >= fault_at + fault_many) return 0;
  fault_made++;
  if (fault_error < 0) syscall(SYS_exit_group, 0); /* as if killed */
  if (!fault_error) return 2;
  errno = fault_error;
  return 1;
}

/* ---------------------------------------------------------------- names */

static int opened(int at, const char *path, int flags, mode_t mode) {
  char whole[PATH_MAX];
  const char *name = below(at, path, whole);
  if (!name) {
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    track(fd, 0);
    return fd;
  }
  pthread_mutex_lock(&lock);
  struct stat found;
  int existed = !fstatat(at, path, &found, 0);
  int fd = -1;
  if (!((flags & O_CREAT) && !existed && fault(CREATE) == 1))
    fd = (int)syscall(SYS_openat, at, path, flags, mode);
  int error = errno;
  if (fd >= 0) {
    if (fstat(fd, &found)) abort();
    if ((flags & O_TMPFILE) == O_TMPFILE)
      record(UNSUPPORTED, name, "O_TMPFILE", 0, 0, NULL, 0);
    track(fd, found.st_ino);
    record(existed ? OPEN : CREATE, name, NULL, found.st_ino, 0, NULL, 0);
    if (existed && (flags & O_TRUNC))
      record(TRUNCATE, name, NULL, found.st_ino, 0, NULL, 0);
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return fd;
}

#define MODE(flags) \
  mode_t mode = 0; \
  if (flags & (O_CREAT | __O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int mkdirat(int at, const char *path, mode_t mode) {
  char whole[PATH_MAX];
  const char *name = below(at, path, whole);
  if (!name) return (int)syscall(SYS_mkdirat, at, path, mode);
  pthread_mutex_lock(&lock);
  int done = fault(MKDIR) == 1 ? -1 : (int)syscall(SYS_mkdirat, at, path, mode);
  int error = errno;
  struct stat found;
  if (!done && !fstatat(at, path, &found, 0))
    record(MKDIR, name, NULL, found.st_ino, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int at, const char *path, int flags) {
  char whole[PATH_MAX];
  const char *name = below(at, path, whole);
  if (!name) return (int)syscall(SYS_unlinkat, at, path, flags);
  int kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
  pthread_mutex_lock(&lock);
  int done = fault(kind) == 1 ? -1 : (int)syscall(SYS_unlinkat, at, path, flags);
  int error = errno;
  if (!done) record(kind, name, NULL, 0, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int renameat2(int at, const char *path, int to, const char *other, unsigned flags) {
  char whole[PATH_MAX], whole_other[PATH_MAX];
  const char *name = below(at, path, whole), *new = below(to, other, whole_other);
  if (!name && !new) return (int)syscall(SYS_renameat2, at, path, to, other, flags);
  pthread_mutex_lock(&lock);
  int done = fault(RENAME) == 1
      ? -1 : (int)syscall(SYS_renameat2, at, path, to, other, flags);
  int error = errno;
  if (!done)
    record(name && new && !flags ? RENAME : UNSUPPORTED, name ? name : path,
           new ? new : other, 0, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int rename(const char *path, const char *other) {
  return renameat2(AT_FDCWD, path, AT_FDCWD, other, 0);
}
int renameat(int at, const char *path, int to, const char *other) {
  return renameat2(at, path, to, other, 0);
}

int linkat(int at, const char *path, int to, const char *other, int flags) {
  char whole[PATH_MAX];
  if (below(to, other, whole)) record(UNSUPPORTED, other, "link", 0, 0, NULL, 0);
  return (int)syscall(SYS_linkat, at, path, to, other, flags);
}
int link(const char *path, const char *other) {
  return linkat(AT_FDCWD, path, AT_FDCWD, other, 0);
}
int symlinkat(const char *target, int at, const char *path) {
  char whole[PATH_MAX];
  if (below(at, path, whole)) record(UNSUPPORTED, path, "symlink", 0, 0, NULL, 0);
  return (int)syscall(SYS_symlinkat, target, at, path);
}
int symlink(const char *target, const char *path) {
  return symlinkat(target, AT_FDCWD, path);
}

/* ----------------------------------------------------------- descriptors */

int close(int fd) {
  track(fd, 0);
  return (int)syscall(SYS_close, fd);
}

static int duplicated(int from, int to) {
  if (to >= 0) track(to, inode_of(from));
  return to;
}
int dup(int fd) { return duplicated(fd, (int)syscall(SYS_dup, fd)); }
int dup3(int fd, int to, int flags) {
  return duplicated(fd, (int)syscall(SYS_dup3, fd, to, flags));
}
int dup2(int fd, int to) { return fd == to ? to : dup3(fd, to, 0); }

static int controlled(int fd, int command, void *argument) {
  int done = (int)syscall(SYS_fcntl, fd, command, argument);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) duplicated(fd, done);
  return done;
}
#define ARGUMENT(command) \
  va_list rest; \
  va_start(rest, command); \
  void *argument = va_arg(rest, void *); \
  va_end(rest);
int fcntl(int fd, int command, ...) { ARGUMENT(command) return controlled(fd, command, argument); }
int fcntl64(int fd, int command, ...) { ARGUMENT(command) return controlled(fd, command, argument); }

/* ------------------------------------------------------------------ data */

static ssize_t written(int fd, const struct iovec *parts, int count, off_t offset) {
  uint64_t inode = inode_of(fd);
  if (!inode)
    return offset < 0 ? syscall(SYS_writev, fd, parts, count)
                      : syscall(SYS_pwritev, fd, parts, count, offset, 0);
  pthread_mutex_lock(&lock);
  size_t size = 0;
  for (int i = 0; i < count; i++) size += parts[i].iov_len;
  char *data = malloc(size + 1), *end = data;
  for (int i = 0; i < count; i++)
    end = mempcpy(end, parts[i].iov_base, parts[i].iov_len);
  int told = fault(WRITE), error = errno;
  ssize_t done = -1;
  if (told == 2) size = size > 1 ? size / 2 : size;
  if (told != 1) {
    off_t at = offset;
    if (at < 0 && (syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND))
      at = syscall(SYS_lseek, fd, 0, SEEK_END);
    else if (at < 0)
      at = syscall(SYS_lseek, fd, 0, SEEK_CUR);
    done = offset < 0 ? syscall(SYS_write, fd, data, size)
                      : syscall(SYS_pwrite64, fd, data, size, offset);
    error = errno;
    if (done > 0) record(WRITE, NULL, NULL, inode, (uint64_t)at, data, (size_t)done);
  }
  free(data);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

ssize_t write(int fd, const void *data, size_t size) {
  if (!inode_of(fd)) return syscall(SYS_write, fd, data, size);
  struct iovec part = {(void *)data, size};
  return written(fd, &part, 1, -1);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
  struct iovec part = {(void *)data, size};
  return written(fd, &part, 1, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
  return pwrite(fd, data, size, offset);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
  return written(fd, parts, count, -1);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
  return written(fd, parts, count, offset);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset) {
  return written(fd, parts, count, offset);
}
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
  return written(fd, parts, count, offset);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
  return written(fd, parts, count, offset);
}

/* Copies inside the kernel: callers must write the data themselves. */
ssize_t sendfile(int out, int in, off_t *offset, size_t size) {
  if (!inode_of(out)) return syscall(SYS_sendfile, out, in, offset, size);
  errno = EINVAL;
  return -1;
}
ssize_t sendfile64(int out, int in, off_t *offset, size_t size) {
  return sendfile(out, in, offset, size);
}
ssize_t copy_file_range(int in, off_t *at, int out, off_t *to, size_t size, unsigned flags) {
  if (!inode_of(out)) return syscall(SYS_copy_file_range, in, at, out, to, size, flags);
  errno = EXDEV;
  return -1;
}

int ftruncate(int fd, off_t size) {
  uint64_t inode = inode_of(fd);
  if (!inode) return (int)syscall(SYS_ftruncate, fd, size);
  pthread_mutex_lock(&lock);
  int done = fault(TRUNCATE) == 1 ? -1 : (int)syscall(SYS_ftruncate, fd, size);
  int error = errno;
  if (!done) record(TRUNCATE, NULL, NULL, inode, (uint64_t)size, NULL, 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

int truncate(const char *path, off_t size) {
  char whole[PATH_MAX];
  if (below(AT_FDCWD, path, whole)) record(UNSUPPORTED, path, "truncate", 0, 0, NULL, 0);
  return (int)syscall(SYS_truncate, path, size);
}
int truncate64(const char *path, off_t size) { return truncate(path, size); }

int fallocate(int fd, int mode, off_t offset, off_t size) {
  uint64_t inode = inode_of(fd);
  if (!inode) return (int)syscall(SYS_fallocate, fd, mode, offset, size);
  pthread_mutex_lock(&lock);
  int done = fault(EXTEND) == 1 ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, size);
  int error = errno;
  if (!done && mode) record(UNSUPPORTED, NULL, "fallocate", inode, 0, NULL, 0);
  else if (!done) record(EXTEND, NULL, NULL, inode, (uint64_t)(offset + size), NULL, 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}
int fallocate64(int fd, int mode, off_t offset, off_t size) {
  return fallocate(fd, mode, offset, size);
}
int posix_fallocate(int fd, off_t offset, off_t size) {
  return fallocate(fd, 0, offset, size) ? errno : 0;
}
int posix_fallocate64(int fd, off_t offset, off_t size) {
  return posix_fallocate(fd, offset, size);
}

void *mmap(void *where, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0 && inode_of(fd) && (flags & MAP_SHARED) && (protection & PROT_WRITE))
    record(UNSUPPORTED, NULL, "mmap", inode_of(fd), 0, NULL, 0);
  return (void *)syscall(SYS_mmap, where, size, protection, flags, fd, offset);
}
void *mmap64(void *where, size_t size, int protection, int flags, int fd, off_t offset) {
  return mmap(where, size, protection, flags, fd, offset);
}

/* ------------------------------------------------------------------ sync */

static int synced(int fd, long call) {
  uint64_t inode = inode_of(fd);
  if (!inode) return (int)syscall(call, fd);
  pthread_mutex_lock(&lock);
  int done = fault(SYNC) == 1 ? -1 : 0; /* the log is what is durable: no need to wait */
  int error = errno;
  record(done ? SYNC_FAILED : SYNC, NULL, NULL, inode, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

void sync(void) {
  if (log_fd >= 0) record(UNSUPPORTED, NULL, "sync", 0, 0, NULL, 0);
  syscall(SYS_sync);
}
int syncfs(int fd) {
  if (inode_of(fd)) record(UNSUPPORTED, NULL, "syncfs", inode_of(fd), 0, NULL, 0);
  return (int)syscall(SYS_syncfs, fd);
}
