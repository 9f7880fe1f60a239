//! Runs other people's plugins, each in a process of its own.
