// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat, USER_HZ: 100 a second on every Linux machine that Go
// runs on.
const tick = time.Second / 100

// cpuTime returns the processor time of a process and its children, in user and kernel mode.
func cpuTime(pid int) (time.Duration, error) {
	var sum time.Duration
	for _, p := range family(pid) {
		fields, err := stat(p)
		if err != nil {
			return 0, err
		}
		for _, f := range fields[11:13] { // utime and stime, fields 14 and 15 of proc(5)
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0, fmt.Errorf("read the times of process %d: %w", p, err)
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// stat returns the fields of /proc/PID/stat from the third on, the state. The second is
// the name of the program and may contain blanks.
func stat(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return fields, nil
}

// family returns pid and the processes below it.
func family(pid int) []int {
	list := []int{pid}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for i := 0; i < len(list); i++ {
		for _, dir := range dirs {
			child, _ := strconv.Atoi(filepath.Base(dir))
			if fields, err := stat(child); err == nil && fields[1] == strconv.Itoa(list[i]) {
				list = append(list, child)
			}
		}
	}
	return list
}
