// Exceptions that lead out of calls on other nodes, for programs in C++. The run-time calls the first, and the code in front of marked
// functions the second. An exception lies in memory that all nodes share, and refers to what has the same address on all.
#include <exception>

// Calls a function with a frame. What it throws, to be thrown again on the caller's node, or null.
extern "C" void *__tombolo_catch(void (*function)(void *), void *frame)
{
    try {
        function(frame);
        return nullptr;
    } catch (...) {
        return new std::exception_ptr(std::current_exception());
    }
}

extern "C" void __tombolo_throw_again(void *caught)
{
    auto *pointer = static_cast<std::exception_ptr *>(caught);
    std::exception_ptr exception = *pointer;
    delete pointer;
    std::rethrow_exception(exception);
}
