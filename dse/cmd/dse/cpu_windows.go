package main

import (
	"time"

	"golang.org/x/sys/windows"
)

// cpuSeconds returns the user and system time of this process.
func cpuSeconds() float64 {
	var made, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &made, &ended, &kernel, &user); err != nil {
		return 0
	}
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) } // units of 100 ns
	return (time.Duration(ticks(kernel)+ticks(user)) * 100).Seconds()
}
