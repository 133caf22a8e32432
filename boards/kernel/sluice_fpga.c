// SPDX-License-Identifier: GPL-2.0
/*
 * sluice_fpga: a bitstream into the PL from a process, on kernels whose FPGA manager takes none.
 *
 * A node "sluice,fpga" names the manager (fpga-mgr) and becomes /dev/sluice-fpga: what one write(2)
 * brings is a whole .bin, and the PL is configured with it when the write returns. The manager is looked
 * up then, not before: it may come later, or never. That nothing uses what is in the PL is the process's
 * to know.
 */
#include <linux/fpga/fpga-mgr.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>
#include <linux/string.h>
#include <linux/version.h>

#define SLUICE_FPGA_MAX (64u << 20)

struct sluice_fpga {
	struct device *dev;
	struct miscdevice misc;
};

static int sluice_fpga_load(struct device *dev, const char *buf, size_t count)
{
	struct fpga_image_info *info;
	struct fpga_manager *mgr;
	struct device_node *node;
	int err;

	node = of_parse_phandle(dev->of_node, "fpga-mgr", 0);
	if (!node)
		return -EINVAL;
	mgr = of_fpga_mgr_get(node);
	of_node_put(node);
	if (IS_ERR(mgr))
		return -ENODEV;
	info = fpga_image_info_alloc(dev);
	if (!info) {
		err = -ENOMEM;
		goto put;
	}
	info->buf = buf;
	info->count = count;
	err = fpga_mgr_lock(mgr);
	if (!err) {
		err = fpga_mgr_load(mgr, info);
		fpga_mgr_unlock(mgr);
	}
	fpga_image_info_free(info);
put:
	fpga_mgr_put(mgr);
	return err;
}

static ssize_t sluice_fpga_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct sluice_fpga *f = container_of(file->private_data, struct sluice_fpga, misc);
	void *buf;
	int err;

	if (!count || count > SLUICE_FPGA_MAX)
		return -EFBIG;
	buf = vmemdup_user(from, count);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	err = sluice_fpga_load(f->dev, buf, count);
	kvfree(buf);
	return err ? err : count;
}

static const struct file_operations sluice_fpga_fops = {
	.owner = THIS_MODULE,
	.write = sluice_fpga_write,
	.llseek = noop_llseek,
};

static int sluice_fpga_probe(struct platform_device *pdev)
{
	struct sluice_fpga *f = devm_kzalloc(&pdev->dev, sizeof(*f), GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	f->dev = &pdev->dev;
	f->misc.minor = MISC_DYNAMIC_MINOR;
	f->misc.name = "sluice-fpga";
	f->misc.fops = &sluice_fpga_fops;
	f->misc.parent = &pdev->dev;
	f->misc.mode = 0200;
	platform_set_drvdata(pdev, f);
	return misc_register(&f->misc);
}

static void sluice_fpga_drop(struct platform_device *pdev)
{
	struct sluice_fpga *f = platform_get_drvdata(pdev);

	misc_deregister(&f->misc);
}

/* The kernel's remove has no result from 6.11 on. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define sluice_fpga_remove sluice_fpga_drop
#else
static int sluice_fpga_remove(struct platform_device *pdev)
{
	sluice_fpga_drop(pdev);
	return 0;
}
#endif

static const struct of_device_id sluice_fpga_match[] = {
	{ .compatible = "sluice,fpga" },
	{}
};
MODULE_DEVICE_TABLE(of, sluice_fpga_match);

static struct platform_driver sluice_fpga_driver = {
	.driver = {
		.name = "sluice-fpga",
		.of_match_table = sluice_fpga_match,
		.suppress_bind_attrs = true, /* an open file outlives an unbound device */
	},
	.probe = sluice_fpga_probe,
	.remove = sluice_fpga_remove,
};
module_platform_driver(sluice_fpga_driver);

MODULE_DESCRIPTION("A bitstream into the PL from a process");
MODULE_LICENSE("GPL");
