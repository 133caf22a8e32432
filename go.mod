module github.com/sluice-npu/sluice

go 1.26
