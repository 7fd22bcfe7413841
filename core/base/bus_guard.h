// SIGBUS: the system's way to say that a mapped page cannot be read (a failing disk) or is gone (the
// file was cut short by other hands).
//
// install() is called once, by a program that owns its process (the server, its tools, tests); a
// library inside somebody else's program leaves signals alone. From then on
//  - a fault inside guarded() ends that call, which says so: reads that meet a page for the first
//    time are made like this and report an error;
//  - a fault anywhere else ends the process with exit status kBusExitStatus and a line on standard
//    error (and in `log_fd`) that says what happened and what to do. Nothing that was acknowledged
//    is lost: it is in the log.
// Any thread may use guarded(); calls may be nested.
#pragma once

namespace multifora {

inline constexpr int kBusExitStatus = 74;  // EX_IOERR of sysexits.h

class BusGuard {
 public:
  // `log_fd`: gets the line as a JSON object too; -1: none. Later calls only change it.
  static void install(int log_fd);

  // Calls `read`, which must own nothing that its end has to free: a fault leaves it in the middle.
  // False: the memory that it wanted cannot be read. Without install() it is only a call.
  template <class F>
  static bool guarded(F&& read) {
    return run([](void* f) { (*static_cast<F*>(f))(); }, &read);
  }

 private:
  static bool run(void (*call)(void*), void* argument);
};

}  // namespace multifora
