# Every source of libspindle, sorted; the seam's own files apart, because the
# schedule explorer takes their place.
set(SPINDLE_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/base/alloc.c
  ${CMAKE_CURRENT_LIST_DIR}/base/assert.c
  ${CMAKE_CURRENT_LIST_DIR}/base/cpu.c
  ${CMAKE_CURRENT_LIST_DIR}/base/log.c
  ${CMAKE_CURRENT_LIST_DIR}/base/status.c
  ${CMAKE_CURRENT_LIST_DIR}/base/version.c
  ${CMAKE_CURRENT_LIST_DIR}/queue/delay.c
  ${CMAKE_CURRENT_LIST_DIR}/queue/fifo.c
  ${CMAKE_CURRENT_LIST_DIR}/queue/monitor.c
  ${CMAKE_CURRENT_LIST_DIR}/queue/queue.c
  ${CMAKE_CURRENT_LIST_DIR}/queue/ring.c
  ${CMAKE_CURRENT_LIST_DIR}/queue/store.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/clock.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/eventcount.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/latch.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/lock.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/park.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/parker.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/semaphore.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/thread.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/thread_record.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/waitq.c)
set(SPINDLE_SEAM_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/sync/seam.c
  ${CMAKE_CURRENT_LIST_DIR}/sync/seam_futex_posix.c)
