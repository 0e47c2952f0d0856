// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// podScript is an API server and a Pods in fake time, with the steps of a script:
//
//	unsynced                  first: lists and watches stall
//	pod NAME UID [WORD...]    is put; words: mirror=HASH, node=NAME, host=NAME, override=POLICY, large
//	delete NAME UID
//	get FAULT                 of requests for one pod: ok, stall, fail, an HTTP status, DURATION (slow)
//	stale NAME UID, stale     the cache of the API server has only this pod, or none
//	events stop, watches end, versions are forgotten
//	sleep DURATION, after DURATION STEP
//	lookup NAME UID [WORD...] words: static, url, unannotated, nomirror, N times
//
// After a lookup is its result with the time that it took, and how many GETs and messages it caused.
type podScript struct {
	*testing.T
	server *apiServer
	pods   *cluster.Pods
	log    strings.Builder
}

// TestPods_Scripts runs the scripts of testdata/pods, with streaming lists and without.
func TestPods_Scripts(t *testing.T) {
	cluster.RunScripts(t, "testdata/pods", func(t *testing.T, archive *txtar.Archive, streaming bool) {
		s := &podScript{T: t, server: newAPIServer(t)}
		if !streaming {
			s.server.DisableStreamingLists()
		}
		if archive.Files[0].Name == "unsynced" {
			s.server.setFaults(nil, kubeapi.Stall)
		}
		p, stop := start(t, cluster.PodsConfig{Client: s.server.local(), Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
		defer stop()
		s.pods = p
		cluster.PlayScript(t, archive, s.step)
	})
}

// step does a step and returns its result.
func (s *podScript) step(text string) string {
	s.Helper()
	words := strings.Fields(text)
	switch words[0] {
	case "pod":
		s.server.Apply(s.parse(words[1:]))
	case "delete":
		s.server.Delete(s.parse(words[1:]))
	case "stale":
		lagging := kubeapi.New()
		if len(words) > 1 {
			lagging.Apply(s.parse(words[1:]))
		}
		s.server.stale.Store(lagging)
	case "get":
		s.setFault(words[1])
	case "events":
		s.server.StopEvents()
	case "watches":
		s.server.CutWatches()
	case "versions":
		s.server.Forget()
	case "sleep":
		time.Sleep(s.duration(words[1]))
	case "after":
		time.AfterFunc(s.duration(words[1]), func() { s.step(strings.Join(words[2:], " ")) })
	case "lookup":
		return s.lookup(words[1:])
	case "unsynced":
	default:
		s.Fatalf("unknown step: %s", text)
	}
	return ""
}

func (s *podScript) duration(text string) time.Duration {
	d := must.Get(time.ParseDuration(text))(s)
	return d
}

// parse returns the pod of the words.
func (s *podScript) parse(words []string) *corev1.Pod {
	pod := newPod("shop", words[0], words[1])
	for _, w := range words[2:] {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "mirror":
			pod = newMirror("shop", words[0], words[1], value)
		case "node":
			pod.Spec.NodeName = value
		case "host":
			pod.Spec.Hostname = value
		case "override":
			pod.Annotations[policy.OverrideAnnotation] = value
		case "large":
			pod.Spec.DNSConfig.Options = append(pod.Spec.DNSConfig.Options,
				corev1.PodDNSConfigOption{Name: strings.Repeat("o", 16<<10)})
		default:
			s.Fatalf("unknown word: %s", w)
		}
	}
	return pod
}

func (s *podScript) setFault(word string) {
	s.server.SetFault(nil, "get")
	s.server.getDelay.Store(0)
	code, err := strconv.Atoi(word)
	switch {
	case err == nil:
		s.server.SetFault(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"no relationship found","code":%d}`, code)
		}, "get")
	case word == "stall":
		s.server.SetFault(kubeapi.Stall, "get")
	case word == "fail":
		s.server.SetFault(kubeapi.Fail, "get")
	case word != "ok":
		s.server.getDelay.Store(int64(s.duration(word)))
	}
}

// lookup looks a pod up, and returns the result.
func (s *podScript) lookup(words []string) string {
	s.Helper()
	ref := refOf(newPod("shop", words[0], words[1]))
	times := 1
	for i, w := range words[2:] {
		switch w {
		case "static":
			ref.Annotations = map[string]string{kube.ConfigSourceAnnotation: "file"}
		case "url":
			ref.Annotations = map[string]string{kube.ConfigSourceAnnotation: "http"}
		case "unannotated":
			ref.Annotations = nil
		case "nomirror":
			ref.NoMirror = true
		case "times":
			times, _ = strconv.Atoi(words[1+i])
		}
	}
	var text string
	gets := s.server.count("get")
	s.log.Reset()
	for range times {
		began := time.Now()
		pod, err := s.pods.Lookup(s.Context(), ref)
		took := time.Since(began)
		switch {
		case err == nil && (pod.UID != ref.UID || pod.Name != ref.Name || pod.Namespace != ref.Namespace):
			text = fmt.Sprintf("another pod: %+v\n", pod)
		case err == nil:
			text = fmt.Sprintf("found after %v: host %s, override %q, %d options\n",
				took, pod.Hostname, pod.Override, len(pod.Config.Options))
		default:
			kind := "failed"
			if i := slices.IndexFunc([]error{cluster.ErrNotFound, context.DeadlineExceeded},
				func(target error) bool { return errors.Is(err, target) }); i >= 0 {
				kind = []string{"not found", "late"}[i]
			}
			text = fmt.Sprintf("%s after %v: %v\n", kind, took, err)
		}
	}
	if n := s.server.count("get") - gets; n > 0 {
		text += fmt.Sprintf("%d GETs\n", n)
	}
	for line := range strings.Lines(s.log.String()) {
		_, message, _ := strings.Cut(line, " ")
		text += message
	}
	return text
}
