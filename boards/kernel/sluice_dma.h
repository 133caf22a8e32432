/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* What a process may ask of /dev/<node name> beside mmap. */
#ifndef SLUICE_DMA_H
#define SLUICE_DMA_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * SLUICE_DMA_SYNC. Of cached memory a stretch is cleaned (TO_DEVICE) or invalidated (FROM_DEVICE), and both
 * are barriers. Of write-combined memory they are barriers alone: TO_DEVICE (wmb) drains an outer cache's
 * store buffer as well, which on 32-bit ARM a process cannot; on arm64 its own DSB does.
 */
#define SLUICE_DMA_TO_DEVICE 1 /* the process has written, the NPU will read */
#define SLUICE_DMA_FROM_DEVICE 2 /* the NPU has written, the process will read */

struct sluice_dma_sync {
	__u64 offset; /* bytes from the region's start */
	__u64 size;
	__u32 direction;
	__u32 reserved;
};

#define SLUICE_DMA_SYNC _IOW('S', 0x53, struct sluice_dma_sync)

#endif
