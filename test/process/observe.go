// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
)

// Page returns the page at a path of a server, such as "/readyz", or the error: the server may
// not serve yet.
func Page(address, path string) string {
	r, err := http.Get("http://" + address + path)
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

var sample = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{.*\})? ([0-9.e+-]+)$`)

// Metrics returns the values of all metrics of a server, added up over their labels.
func Metrics(address string) map[string]float64 {
	sums := map[string]float64{}
	for _, m := range sample.FindAllStringSubmatch(Page(address, "/metrics"), -1) {
		if v, err := strconv.ParseFloat(m[2], 64); err == nil {
			sums[m[1]] += v
		}
	}
	return sums
}

// Memory returns a field of the server in proc_pid_status(5), such as VmHWM, in KiB.
func (p *Process) Memory(field string) (kib int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("%s has ended: %w\n%s", p.Program, err, p.Log())
	}
	m := regexp.MustCompile(`(?m)^` + field + `:\s+(\d+) kB$`).FindSubmatch(status)
	if m == nil {
		return 0, fmt.Errorf("no %s in\n%s", field, status)
	}
	return strconv.Atoi(string(m[1]))
}
