# Every source of libspindle-rpc, sorted.  The first list is portable and is
# compiled into the explorer too; the second one knows libuv and sockets, and the
# explorer has a network of its own in its place (tests/sim/net_sim.c).
set(SPINDLE_RPC_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/rpc/body.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/channel.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/counts.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/decode.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/dispatch.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/dispatch_all.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/dispatch_connection.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/dispatch_direct.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/dispatch_execution.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/dispatch_message.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/dispatchers.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/exchange.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/frame.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/heartbeat.c
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
  ${CMAKE_CURRENT_LIST_DIR}/rpc/multi_message.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/reply.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/request.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/server.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/server_stats.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/services.c
  ${CMAKE_CURRENT_LIST_DIR}/rpc/version.c)
set(SPINDLE_RPC_UV_SOURCES)
# Its public headers; those of include/spindle that are not here are libspindle's.
set(SPINDLE_RPC_HEADERS
  ${CMAKE_CURRENT_LIST_DIR}/../include/spindle/dispatcher.h
  ${CMAKE_CURRENT_LIST_DIR}/../include/spindle/hessian.h
  ${CMAKE_CURRENT_LIST_DIR}/../include/spindle/rpc.h
  ${CMAKE_CURRENT_LIST_DIR}/../include/spindle/server.h
  ${CMAKE_CURRENT_LIST_DIR}/../include/spindle/service.h)
