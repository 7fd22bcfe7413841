// The FilterCompiler (core/plugin/host.h) that lets partial indexes and validators use the matcher.
// Any thread.
#pragma once

#include <memory>

#include "core/bson/view.h"
#include "core/plugin/host.h"
#include "plugins/query-engine/matcher.h"

namespace multifora {

std::unique_ptr<FilterCompiler> make_filter_compiler();

// Why `document` does not match, as errInfo.details of DocumentValidationFailure shows it. Empty
// where it matches after all.
OwnedDocument explain_mismatch(const Matcher& matcher, DocumentView document);

}  // namespace multifora
