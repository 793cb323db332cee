// SPDX-License-Identifier: Apache-2.0
// No code: the header declares wire structures only. SwiftPM wants one source file per C target.
#include "CFuse.h"
