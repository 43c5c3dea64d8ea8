#include "fj_peers.h"
const struct fj_kind fj_spindle, fj_spindle_plain_merge;
