//! Linux without C libraries: sockets, timestamps, real-time threads, locked memory.
