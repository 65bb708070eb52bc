// The process's one engine: the only global state of the project.
#ifndef FASTHVD_RUNTIME_ENGINE_CONTEXT_H_
#define FASTHVD_RUNTIME_ENGINE_CONTEXT_H_

#include <memory>

namespace fasthvd {

class Engine;

// The running engine, or null before init() and after shutdown(). Thread-safe.
std::shared_ptr<Engine> CurrentEngine();

}  // namespace fasthvd

#endif  // FASTHVD_RUNTIME_ENGINE_CONTEXT_H_
