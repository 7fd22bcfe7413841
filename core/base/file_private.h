// The operating system's files, with every change kept in this process's memory: what a database that
// is opened read-only works on. Recovery may replay a log into such files, and nothing on the disk
// changes; the memory that it takes is that of the changed pages. Files, names and directories made
// here exist here only. lock() takes a shared lock of an existing file: several such processes may
// read one database, beside none that writes it.
//
// Each object has its own view of the disk. Any thread may call, as for every FileSystem.
#pragma once

#include <memory>

#include "core/base/file.h"

namespace multifora {

std::unique_ptr<FileSystem> make_private_file_system();

}  // namespace multifora
