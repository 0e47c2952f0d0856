// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
)

// logInterval is the interval at which a lasting problem is logged again.
const logInterval = time.Minute

// problemList has the reasons for which the shim does less than its configuration says. They are
// logged when they occur and once a minute while they last.
type problemList struct {
	log *slog.Logger

	mu    sync.Mutex
	parts map[string]problem // by the part of the shim
}

// problem is a lasting error.
type problem struct {
	text string
	at   time.Time // when it was logged
}

// set records err as the problem of a part; nil is none. message is the log message.
func (p *problemList) set(part, message string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.parts, part)
		return
	}
	q := p.parts[part]
	if text := oneLine(err); text != q.text || time.Since(q.at) >= logInterval {
		q = problem{text, time.Now()}
		p.log.Error(message, "error", text)
	}
	if p.parts == nil {
		p.parts = map[string]problem{}
	}
	p.parts[part] = q
}

// has reports whether a part has a problem.
func (p *problemList) has(part string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.parts[part]
	return has
}

// lines returns one line for each problem.
func (p *problemList) lines() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range slices.Sorted(maps.Keys(p.parts)) {
		lines = append(lines, part+": "+p.parts[part].text)
	}
	return lines
}

// oneLine joins the texts of joined errors.
func oneLine(err error) string {
	var texts []string
	for _, e := range excerpt.Unjoin(err) {
		texts = append(texts, e.Error())
	}
	return strings.Join(texts, "; ")
}

// ReportBypass sends an event about the bypass of the shim on its node. The credentials are those
// of the configuration file, or of the last good settings in the directory state.
func ReportBypass(ctx context.Context, file, state, version, reason, message string) error {
	c, err := Kind().FromFile(file).Load()
	if err != nil {
		var lastErr error
		if c, lastErr = lastGood(filepath.Join(state, stateFile)).load(); lastErr != nil {
			return excerpt.Prefix("sending an event about the node", errors.Join(err, lastErr))
		}
	}
	if c.Kubeconfig == "" {
		return nil
	}
	api, err := node.NewClient(c.Kubeconfig, "dnsconfigurer-shim/"+version)
	if err != nil {
		return fmt.Errorf("sending an event about the node: %w", err)
	}
	kind := corev1.EventTypeWarning
	if reason == node.ReasonBypassEnded {
		kind = corev1.EventTypeNormal
	}
	return node.SendNode(ctx, api, c.Node.Name, kind, reason, message)
}

// errNoState says that there are no last good settings.
var errNoState = errors.New("no last good settings: the directory is not set")

// stateFile is the name of the file with the last good settings.
const stateFile = "last-good-shim.yaml"

// lastGood is the file with the last valid settings, which the shim uses if it starts with an
// invalid configuration. It is a ShimConfiguration with the node facts in it, so that a
// kubelet's file that became invalid does not matter. "": there is no file.
type lastGood string

// stateDirectory returns the directory that systemd passes (StateDirectory=), "" if there is none.
func stateDirectory() string {
	dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	return dir
}

// load returns the settings.
func (l lastGood) load() (Config, error) {
	if l == "" {
		return Config{}, errNoState
	}
	return Kind().FromFile(string(l)).Load()
}

// save replaces the settings if they differ. After a crash the file has the old or the new ones.
func (l lastGood) save(c Config) error {
	if l == "" {
		return nil
	}
	data, err := json.MarshalIndent(c.WithFacts(), "", "  ")
	if err != nil {
		return err
	}
	text := string(data) + "\n"
	if old, err := os.ReadFile(string(l)); err == nil && string(old) == text {
		return nil
	}
	if err := atomicfile.WriteText(string(l), 0o600, text); err != nil {
		return fmt.Errorf("keeping the last good settings: %w", err)
	}
	return nil
}
