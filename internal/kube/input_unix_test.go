// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestRead_UnreadableDirectory: the files of the other directories are read. The path of the one that
// cannot be read is longer than PATH_MAX, because root may read every directory.
func TestRead_UnreadableDirectory(t *testing.T) {
	write(t, map[string]string{"all/a/pod.yaml": fmt.Sprintf(pod, "a"), "all/c/pod.yaml": fmt.Sprintf(pod, "c")})
	start := must.Get(os.Getwd())(t)
	long := strings.Repeat("b", 250)
	t.Chdir("all")
	for range 20 {
		must.Succeed(t, os.Mkdir(long, 0o700))
		t.Chdir(long)
	}
	t.Chdir(start)
	m, err := kube.Input{Paths: []string{"all"}, Recursive: true}.Read(nil)
	if err == nil || !strings.HasPrefix(err.Error(), "all/"+long) || !strings.HasSuffix(err.Error(), long+": file name too long") ||
		len(m.Workloads) != 2 {
		t.Errorf("%d workloads, %v", len(m.Workloads), err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestWatcher_Log: an error of a path is logged when it appears or changes.
func TestWatcher_Log(t *testing.T) {
	var failed map[string]error
	log := new(strings.Builder)
	w := kube.Watcher{
		Directories: []string{t.TempDir()}, Read: func() map[string]error { return failed },
		Logger: slog.New(slog.NewTextHandler(log, nil)), Message: "cannot read",
	}
	bad, worse := errors.New("bad"), errors.New("worse")
	for _, step := range []struct {
		failed map[string]error
		want   []string
	}{
		{nil, nil},
		{map[string]error{"b": bad, "a": bad}, []string{"path=a error=bad", "path=b error=bad"}},
		{map[string]error{"b": bad, "a": bad}, nil},
		{map[string]error{"b": worse, "a": bad}, []string{"path=b error=worse"}},
		{nil, nil},
		{map[string]error{"a": bad}, []string{"path=a error=bad"}},
	} {
		log.Reset()
		failed = step.failed
		w.Poll()
		got := regexp.MustCompile(`path=.*`).FindAllString(log.String(), -1)
		if !slices.Equal(got, step.want) || strings.Count(log.String(), `msg="cannot read"`) != len(step.want) {
			t.Errorf("%v: logged %q, want %q", step.failed, log, step.want)
		}
	}
}

// TestWatcher_Run: changes are read soon, and a token at once.
func TestWatcher_Run(t *testing.T) {
	dir, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	reads, wake, log := make(chan struct{}, 16), make(chan struct{}, 1), new(strings.Builder)
	w := kube.Watcher{
		Directories: []string{missing, dir}, Wake: wake,
		Read:   func() map[string]error { reads <- struct{}{}; return nil },
		Logger: slog.New(slog.NewTextHandler(log, nil)), Message: "cannot read",
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	wantRead := func(when string) {
		t.Helper()
		select {
		case <-reads:
		case <-time.After(kube.PollPeriod / 2):
			t.Fatalf("not read %s", when)
		}
	}
	wantRead("at the start")
	writeFile(t, filepath.Join(dir, "a"), "")
	wantRead("after a change")
	wake <- struct{}{}
	wantRead("after a token")
	cancel()
	<-done
	if n := strings.Count(log.String(), "path="+missing); n != 1 || !strings.Contains(log.String(), "watching: ") {
		t.Errorf("logged %d times: %s", n, log)
	}
}
