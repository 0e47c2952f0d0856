// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
)

// logInterval is the interval at which a lasting problem is logged again.
const logInterval = time.Minute

// problemList has the reasons for which the shim does less than its configuration says. They are
// logged when they occur and once a minute while they last.
type problemList struct {
	log *slog.Logger

	mu   sync.Mutex
	list []problem // with at most one of each part
}

// problem is a lasting error of one part of the shim.
type problem struct {
	part string
	text string
	at   time.Time // when it was logged
}

// set records err as the problem of a part; nil is none. message is the log message.
func (p *problemList) set(part, message string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var old problem
	for i, q := range p.list {
		if q.part == part {
			old = q
			p.list = append(p.list[:i:i], p.list[i+1:]...)
			break
		}
	}
	if err == nil {
		return
	}
	next := problem{part, oneLine(err), old.at}
	if next.text != old.text || time.Since(old.at) >= logInterval {
		next.at = time.Now()
		p.log.Error(message, "error", next.text)
	}
	p.list = append(p.list, next)
}

// has reports whether a part has a problem.
func (p *problemList) has(part string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.list {
		if q.part == part {
			return true
		}
	}
	return false
}

// lines returns one line for each problem.
func (p *problemList) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for _, q := range p.list {
		lines = append(lines, fmt.Sprintf("%s: %s", q.part, q.text))
	}
	return lines
}

// oneLine joins the texts of joined errors.
func oneLine(err error) string {
	var texts []string
	for _, e := range multierr.Unjoin(err) {
		texts = append(texts, e.Error())
	}
	return strings.Join(texts, "; ")
}
