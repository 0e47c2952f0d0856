// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
)

// staticPod is what a kubelet makes of a manifest: a pod, or nothing and a reason.
type staticPod struct {
	pod     *corev1.Pod
	refused string
}

// caseAnnotation finds a manifest's case again, whose name and UID the kubelet changes.
const caseAnnotation = "case"

// readManifests puts the manifests of list into static pod directories, one for each
// node, and returns what a kubelet makes of them, by place in list.
func readManifests(ctx context.Context, dir string, list []cases.Case) (map[int]staticPod, error) {
	static := make(map[int]staticPod)
	for node, places := range groupManifests(list) {
		manifests, err := os.MkdirTemp(dir, "manifests")
		if err != nil {
			return nil, err
		}
		for _, i := range places {
			pod := list[i].Pod.DeepCopy()
			if pod.Annotations == nil {
				pod.Annotations = make(map[string]string)
			}
			pod.Annotations[caseAnnotation] = strconv.Itoa(i)
			data, err := json.Marshal(pod)
			if err != nil {
				return nil, err
			}
			if err := os.WriteFile(manifestPath(manifests, i), data, 0o600); err != nil {
				return nil, err
			}
		}
		pods, refused := readDirectory(ctx, manifests, node)
		for _, pod := range pods {
			i, err := strconv.Atoi(pod.Annotations[caseAnnotation])
			if err != nil {
				return nil, fmt.Errorf("static pod %s/%s: annotation: %w", pod.Namespace, pod.Name, err)
			}
			delete(pod.Annotations, caseAnnotation)
			static[i] = staticPod{pod: pod}
		}
		for _, i := range places {
			if static[i].pod != nil {
				continue
			}
			err, found := refused[manifestPath(manifests, i)]
			if !found {
				return nil, fmt.Errorf("%s: the kubelet neither takes the manifest nor says why not", list[i].ID)
			}
			static[i] = staticPod{refused: err.Error()}
		}
	}
	return static, nil
}

// groupManifests returns the places of the manifests in list by node. A kubelet takes
// only one pod of each name on its node.
func groupManifests(list []cases.Case) map[string][]int {
	groups := make(map[string][]int)
	for i := range list {
		if list[i].Manifest {
			groups[list[i].Node()] = append(groups[list[i].Node()], i)
		}
	}
	return groups
}

func manifestPath(dir string, i int) string { return filepath.Join(dir, strconv.Itoa(i)+".json") }

// readDirectory lets the kubelet's file source read dir once. The source watches the
// directory as long as the process lives: it has no way to stop, and an interval too
// long to wake up.
func readDirectory(ctx context.Context, dir, node string) ([]*corev1.Pod, map[string]error) {
	refusals := &refusalLog{byPath: make(map[string]error)}
	source := config.NewPodConfig(new(recorder), noObserver{})
	channel := source.Channel(ctx, kubetypes.FileSource)
	const never = 1000 * time.Hour
	config.NewSourceFile(logr.New(refusals), dir, types.NodeName(node), never, channel)
	update := <-source.Updates()

	refusals.mu.Lock()
	defer refusals.mu.Unlock()
	return update.Pods, refusals.byPath
}

// refusalLog is a log that keeps why the file source refused a manifest: it tells
// nobody else.
type refusalLog struct {
	mu     sync.Mutex
	byPath map[string]error
}

func (l *refusalLog) Init(logr.RuntimeInfo)          {}
func (l *refusalLog) Enabled(int) bool               { return false } // Error is called all the same
func (l *refusalLog) Info(int, string, ...any)       {}
func (l *refusalLog) WithValues(...any) logr.LogSink { return l }
func (l *refusalLog) WithName(string) logr.LogSink   { return l }
func (l *refusalLog) Error(err error, _ string, kv ...any) {
	if len(kv) == 2 && kv[0] == "path" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.byPath[kv[1].(string)] = err
	}
}

// noObserver stands in for the kubelet's start-up metrics.
type noObserver struct{}

func (noObserver) ObservedPodOnWatch(logr.Logger, *corev1.Pod, time.Time) {}
