# Every source of libspindle-rpc, sorted.  The first list is portable and is
# compiled into the explorer too; the second one knows libuv and sockets, and the
# explorer has a network of its own in its place (tests/sim/net_sim.c).
set(SPINDLE_RPC_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/rpc/version.c)
set(SPINDLE_RPC_UV_SOURCES)
# Its public headers; those of include/spindle that are not here are libspindle's.
set(SPINDLE_RPC_HEADERS
  ${CMAKE_CURRENT_LIST_DIR}/../include/spindle/rpc.h)
