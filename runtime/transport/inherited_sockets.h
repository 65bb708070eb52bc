// Keeps a forked child from holding its parent's connections open.
#ifndef FASTHVD_RUNTIME_TRANSPORT_INHERITED_SOCKETS_H_
#define FASTHVD_RUNTIME_TRANSPORT_INHERITED_SOCKETS_H_

#include <sys/stat.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace fasthvd {

// A connection is closed for its peer when no process holds it any more: while a data loader's
// forked worker does, nobody hears of the death of its parent. Filled by one thread before forks
// matter; constant afterwards.
class InheritedSockets {
 public:
  void Add(int fd) {
    struct stat status;
    if (fstat(fd, &status) == 0) sockets_.emplace_back(fd, status.st_ino);
  }

  // In the child, whose copies these are. The parent may have closed some since, and their numbers
  // may stand for other files now: those stay open. Async-signal-safe.
  void Close() const {
    for (const auto& [fd, inode] : sockets_) {
      struct stat status;
      bool same = fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == inode;
      if (same) close(fd);
    }
  }

 private:
  std::vector<std::pair<int, ino_t>> sockets_;
};

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_TRANSPORT_INHERITED_SOCKETS_H_
