// SPDX-License-Identifier: GPL-2.0
/*
 * sluice_dma: the memory that an NPU and a process share, mapped as Normal memory.
 *
 * A node "sluice,dma-buffer" names a reserved-memory region and becomes /dev/<node name>: mmap gives
 * the whole region, from offset 0. A region that is no-map is mapped write-combined (Normal,
 * non-cacheable on ARM): nothing needs to be cleaned or invalidated, only ordered; SLUICE_DMA_SYNC does so
 * for the outer cache of a Zynq-7000 too, whose store buffer no barrier of a process drains. One that is a
 * shared-dma-pool and reusable, in low memory, is mapped cached, and SLUICE_DMA_SYNC cleans or
 * invalidates a stretch. A UIO or /dev/mem mapping of the same memory would be Device memory, in
 * which unaligned and wide accesses, and so memcpy, fault.
 *
 * Below /sys/class/misc/<node name>/: phys_addr, size (decimal), mode (write-combined or cached).
 */
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/of_reserved_mem.h>
#include <linux/platform_device.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "sluice_dma.h"

struct sluice_dma {
	struct device *dev;
	struct miscdevice misc;
	size_t size;
	dma_addr_t addr;
	struct page *pages; /* cached only */
};

static struct sluice_dma *of_file(struct file *file)
{
	return container_of(file->private_data, struct sluice_dma, misc);
}

static int sluice_dma_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct sluice_dma *d = of_file(file);

	if (vma->vm_pgoff || vma->vm_end - vma->vm_start > d->size)
		return -EINVAL;
	if (d->pages)
		return dma_mmap_pages(d->dev, vma, d->size, d->pages);
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	return remap_pfn_range(vma, vma->vm_start, PHYS_PFN(d->addr), vma->vm_end - vma->vm_start,
			       vma->vm_page_prot);
}

static long sluice_dma_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct sluice_dma *d = of_file(file);
	struct sluice_dma_sync s;

	if (cmd != SLUICE_DMA_SYNC)
		return -ENOTTY;
	if (copy_from_user(&s, (void __user *)arg, sizeof(s)))
		return -EFAULT;
	if (s.size > d->size || s.offset > d->size - s.size)
		return -EINVAL;
	switch (s.direction) {
	case SLUICE_DMA_TO_DEVICE:
		if (d->pages)
			dma_sync_single_range_for_device(d->dev, d->addr, s.offset, s.size,
							 DMA_TO_DEVICE);
		wmb(); /* before the register write that starts the NPU */
		return 0;
	case SLUICE_DMA_FROM_DEVICE:
		rmb(); /* after the register read that said it has ended */
		if (d->pages)
			dma_sync_single_range_for_cpu(d->dev, d->addr, s.offset, s.size,
						      DMA_FROM_DEVICE);
		return 0;
	}
	return -EINVAL;
}

static const struct file_operations sluice_dma_fops = {
	.owner = THIS_MODULE,
	.mmap = sluice_dma_mmap,
	.unlocked_ioctl = sluice_dma_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

static struct sluice_dma *of_misc(struct device *dev)
{
	return container_of(dev_get_drvdata(dev), struct sluice_dma, misc);
}

static ssize_t phys_addr_show(struct device *dev, struct device_attribute *a, char *buf)
{
	return sysfs_emit(buf, "%#llx\n", (unsigned long long)of_misc(dev)->addr);
}
static DEVICE_ATTR_RO(phys_addr);

static ssize_t size_show(struct device *dev, struct device_attribute *a, char *buf)
{
	return sysfs_emit(buf, "%zu\n", of_misc(dev)->size);
}
static DEVICE_ATTR_RO(size);

static ssize_t mode_show(struct device *dev, struct device_attribute *a, char *buf)
{
	return sysfs_emit(buf, "%s\n", of_misc(dev)->pages ? "cached" : "write-combined");
}
static DEVICE_ATTR_RO(mode);

static struct attribute *sluice_dma_attrs[] = {
	&dev_attr_phys_addr.attr,
	&dev_attr_size.attr,
	&dev_attr_mode.attr,
	NULL,
};
ATTRIBUTE_GROUPS(sluice_dma);

static int sluice_dma_probe(struct platform_device *pdev)
{
	struct device *dev = &pdev->dev;
	struct device_node *node;
	struct sluice_dma *d;
	struct resource r;
	bool no_map, cached;
	int err;

	node = of_parse_phandle(dev->of_node, "memory-region", 0);
	if (!node)
		return dev_err_probe(dev, -EINVAL, "no memory-region\n");
	err = of_address_to_resource(node, 0, &r);
	no_map = of_property_read_bool(node, "no-map");
	cached = of_property_read_bool(node, "reusable");
	of_node_put(node);
	if (err)
		return dev_err_probe(dev, err, "memory-region has no reg\n");
	d = devm_kzalloc(dev, sizeof(*d), GFP_KERNEL);
	if (!d)
		return -ENOMEM;
	d->dev = dev;
	d->size = resource_size(&r);
	if (cached) {
		err = of_reserved_mem_device_init(dev);
		if (err)
			return dev_err_probe(dev, err, "memory-region is no shared-dma-pool\n");
		/* The NPU's masters have 40 bits of address, those of a Zynq-7000's ports 32. */
		err = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(sizeof(phys_addr_t) > 4 ? 40 : 32));
		if (err)
			goto release;
		d->pages = dma_alloc_pages(dev, d->size, &d->addr, DMA_BIDIRECTIONAL,
					   GFP_KERNEL | __GFP_ZERO);
		if (!d->pages) {
			err = -ENOMEM;
			dev_err(dev, "cannot take %zu bytes of its memory-region\n", d->size);
			goto release;
		}
		/* Its zeros are the caches' still: evicted later they would overwrite what the NPU writes. */
		dma_sync_single_for_device(dev, d->addr, d->size, DMA_BIDIRECTIONAL);
	} else {
		/* What the kernel maps itself must not be mapped a second time with other attributes. */
		if (!no_map)
			return dev_err_probe(dev, -EINVAL, "memory-region is neither no-map nor reusable\n");
		d->addr = r.start;
	}
	d->misc.minor = MISC_DYNAMIC_MINOR;
	d->misc.name = devm_kasprintf(dev, GFP_KERNEL, "%pOFn", dev->of_node);
	d->misc.fops = &sluice_dma_fops;
	d->misc.groups = sluice_dma_groups;
	d->misc.parent = dev;
	err = d->misc.name ? misc_register(&d->misc) : -ENOMEM;
	if (err)
		goto free;
	platform_set_drvdata(pdev, d);
	dev_info(dev, "%zu bytes at %pad, %s\n", d->size, &d->addr,
		 d->pages ? "cached" : "write-combined");
	return 0;
free:
	if (d->pages)
		dma_free_pages(dev, d->size, d->pages, d->addr, DMA_BIDIRECTIONAL);
release:
	if (cached)
		of_reserved_mem_device_release(dev);
	return err;
}

static void sluice_dma_drop(struct platform_device *pdev)
{
	struct sluice_dma *d = platform_get_drvdata(pdev);

	misc_deregister(&d->misc);
	if (d->pages) {
		dma_free_pages(d->dev, d->size, d->pages, d->addr, DMA_BIDIRECTIONAL);
		of_reserved_mem_device_release(d->dev);
	}
}

/* The kernel's remove has no result from 6.11 on. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define sluice_dma_remove sluice_dma_drop
#else
static int sluice_dma_remove(struct platform_device *pdev)
{
	sluice_dma_drop(pdev);
	return 0;
}
#endif

static const struct of_device_id sluice_dma_match[] = {
	{ .compatible = "sluice,dma-buffer" },
	{}
};
MODULE_DEVICE_TABLE(of, sluice_dma_match);

static struct platform_driver sluice_dma_driver = {
	.driver = {
		.name = "sluice-dma",
		.of_match_table = sluice_dma_match,
		.suppress_bind_attrs = true, /* mappings outlive an unbound device */
	},
	.probe = sluice_dma_probe,
	.remove = sluice_dma_remove,
};
module_platform_driver(sluice_dma_driver);

MODULE_DESCRIPTION("Memory that an NPU and a process share");
MODULE_LICENSE("GPL");
