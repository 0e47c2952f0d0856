// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

const (
	// maxManifest is the size in bytes of the largest file that the kubelet reads
	// (maxConfigLength in pkg/kubelet/config).
	maxManifest = 10 << 20

	// settleTime is how long a changed directory may go on changing before it is
	// read, so that a file is rarely seen half written.
	settleTime = 50 * time.Millisecond

	// rereadPeriod is that of the kubelet (fileCheckFrequency). It is for what
	// inotify does not tell: a directory that comes later, a file behind a link.
	rereadPeriod = 20 * time.Second
)

// directory is the kubelet's static pod directory. One goroutine uses it.
type directory struct {
	path string
	node string
	log  *slog.Logger
	set  func(map[name]policy.Pod) // hears of all pods after each reading
	now  <-chan struct{}           // somebody waits for a reading

	watcher    *fsnotify.Watcher // nil: none
	complaints map[string]string // by file: what was logged last
}

// watch reads the directory, now and whenever it changes, until ctx ends.
func (d *directory) watch(ctx context.Context) {
	var events chan fsnotify.Event
	var failures chan error
	if w, err := fsnotify.NewWatcher(); err == nil {
		defer w.Close()
		d.watcher, events, failures = w, w.Events, w.Errors
	} else {
		d.log.Warn("static pod manifests are not watched", "reread", rereadPeriod, "error", err)
	}
	d.read()
	period := time.NewTicker(rereadPeriod)
	defer period.Stop()
	var settled <-chan time.Time // nil: nothing has changed
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
		case <-failures: // an overflow: something has changed
		case <-d.now:
			d.read()
			continue
		case <-period.C:
			d.read()
			continue
		case <-settled:
			settled = nil
			d.read()
			continue
		}
		if settled == nil {
			settled = time.After(settleTime)
		}
	}
}

// read reads the directory as the kubelet does: every regular file whose name does
// not begin with a dot, in the order of their names; of two with the same pod the
// later one counts.
func (d *directory) read() {
	complaints := map[string]string{}
	pods := map[name]policy.Pod{}
	if d.watcher != nil { // before reading, and each time: the directory may be a new one
		if err := d.watcher.Add(d.path); err != nil {
			complaints[d.path] = fmt.Sprintf("watching: %v", err)
		}
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		complaints[d.path] = err.Error()
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file := filepath.Join(d.path, e.Name())
		pod, err := d.pod(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone since
		case err != nil:
			complaints[file] = err.Error()
		default:
			pods[name{pod.Namespace, pod.Name}] = pod
		}
	}
	for file, complaint := range complaints {
		if d.complaints[file] != complaint {
			d.log.Warn("trouble with static pod manifests", "file", file, "error", complaint)
		}
	}
	d.complaints = complaints
	d.set(pods)
}

func (d *directory) pod(file string) (policy.Pod, error) {
	text, err := readRegular(file)
	if err != nil {
		return policy.Pod{}, err
	}
	pod, err := kube.ParseStaticPod(text, d.node)
	if err != nil {
		return policy.Pod{}, err
	}
	return kube.FromPod(pod), nil
}

// readRegular reads a regular file, or one behind a link. Others may never end.
func readRegular(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("has more than %d bytes", maxManifest)
	}
	return text, err
}
