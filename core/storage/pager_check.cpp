#include "core/storage/pager_impl.h"
