# Every source of libspindle-rpc, sorted.  The first list is portable and is
# compiled into the explorer too; the second one knows libuv and sockets, and the
# explorer has a network of its own in its place (tests/sim/net_sim.c).
set(SPINDLE_RPC_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_arena.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_compare.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_print.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_read.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_read_tree.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_struct.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_text.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_value.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_write.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/hessian_write_tree.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/version.c)
set(SPINDLE_RPC_UV_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/net/uv_conn.c
  ${CMAKE_CURRENT_LIST_DIR}/net/uv_connect.c
  ${CMAKE_CURRENT_LIST_DIR}/net/uv_listen.c
  ${CMAKE_CURRENT_LIST_DIR}/net/uv_loop.c
  ${CMAKE_CURRENT_LIST_DIR}/net/uv_transport.c
  ${CMAKE_CURRENT_LIST_DIR}/net/uv_write.c)
# Its public headers; those of include/spindle that are not here are libspindle's.
set(SPINDLE_RPC_HEADERS
  ${CMAKE_CURRENT_LIST_DIR}/../include/spindle/hessian.h
  ${CMAKE_CURRENT_LIST_DIR}/../include/spindle/rpc.h)
