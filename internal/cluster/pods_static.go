// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// maxManifest is the size in bytes of the largest file that the kubelet reads
// (maxConfigLength in pkg/kubelet/config).
const maxManifest = 10 << 20

// staticPods reads the kubelet's static pods.
type staticPods struct {
	path    string // a directory or a file
	node    string
	publish func(map[types.NamespacedName]policy.Pod) // receives all pods after each reading
}

// read reads the manifests as the kubelet does: the one file, or in a directory every regular
// file whose name does not begin with a dot, in the order of their names. Of two manifests of
// a pod the later one wins. It returns the errors by path.
func (s *staticPods) read() map[string]error {
	failed := map[string]error{}
	pods := map[types.NamespacedName]policy.Pod{}
	files, err := s.list()
	if err != nil {
		failed[s.path] = err
	}
	for _, file := range files {
		var pod *corev1.Pod
		text, err := manifest.ReadRegular(file, maxManifest)
		if err == nil {
			pod, err = kube.ParseStaticPod(text, s.node)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since the directory was read
		case err != nil:
			failed[file] = err
		default:
			pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = kube.FromPod(pod)
		}
	}
	s.publish(pods)
	return failed
}

// list returns the files to read: those of the directory, or the one file (staticPodPath may be
// either).
func (s *staticPods) list() ([]string, error) {
	entries, err := os.ReadDir(s.path)
	if errors.Is(err, syscall.ENOTDIR) {
		return []string{s.path}, nil
	}
	var files []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(s.path, e.Name()))
		}
	}
	return files, err
}
