// The process's one engine and the memory of its results: the only global state of the project.
#ifndef FASTHVD_RUNTIME_ENGINE_CONTEXT_H_
#define FASTHVD_RUNTIME_ENGINE_CONTEXT_H_

#include <memory>

namespace fasthvd {

class BlockPool;
class Engine;

// The running engine, or null before init() and after shutdown(). Thread-safe.
std::shared_ptr<Engine> CurrentEngine();

// Memory for large results, which may be in use after shutdown(): never destroyed. It keeps blocks
// while an engine runs.
BlockPool& ResultMemory();

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_ENGINE_CONTEXT_H_
