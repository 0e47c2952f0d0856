// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
)

const (
	readyPoll       = time.Second // between two calls of Ready, which are cheap
	recheck         = time.Minute // without the taint: a Node that is created again has it again
	firstTaintRetry = time.Second
	lastTaintRetry  = time.Minute
	callTimeout     = 10 * time.Second
)

// A taintRemover removes a taint from a node.
type taintRemover struct {
	Client rest.Interface // of the core API, with the type Node
	Node   string         // name
	Taint  Taint
	Ready  func() bool // reports whether pods may be scheduled; must not block
	Log    *slog.Logger

	retry  time.Duration // the last pause after an error; 0: the last call had none
	logged string        // the last error
}

// Run removes the taint whenever the node has it and Ready is true, until ctx ends. After an error
// it tries again, for ever.
func (r *taintRemover) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		daemon.Sleep(ctx, r.step(ctx))
	}
	return nil
}

// step removes the taint if it is there, and returns the time until the next step.
func (r *taintRemover) step(ctx context.Context) time.Duration {
	if !r.Ready() {
		return readyPoll
	}
	found, err := r.remove(ctx)
	switch {
	case ctx.Err() != nil:
		return 0
	case err == nil && found:
		r.Log.Info("startup taint removed", "node", r.Node, "taint", r.Taint.String())
		r.send(ctx, corev1.EventTypeNormal, events.ReasonTaintRemoved,
			fmt.Sprintf("the NRI relay is connected: the taint %s is removed", r.Taint))
	case isConflict(err) && r.retry < lastTaintRetry: // no node changes at every attempt
		r.Log.Debug("startup taint not removed, retrying", "node", r.Node, "error", err)
	case err != nil:
		r.report(ctx, err)
	}
	if err != nil {
		r.retry = min(max(2*r.retry, firstTaintRetry), lastTaintRetry)
		return r.retry
	}
	r.retry, r.logged = 0, ""
	return recheck
}

// remove removes the taint, and reports whether the node had it. Another taint that is written at
// the same time is kept: the API server applies the patch only to a node that has this taint at
// this place of its list.
func (r *taintRemover) remove(ctx context.Context) (found bool, err error) {
	node := &corev1.Node{}
	// The watch cache of the API server is enough: if it is late, the patch does not apply, or the
	// next step finds the taint.
	get := r.Client.Get().Resource("nodes").Name(r.Node).Param("resourceVersion", "0").Timeout(callTimeout)
	if err := get.Do(ctx).Into(node); err != nil {
		return false, fmt.Errorf("reading the node: %w", err)
	}
	i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)} == r.Taint
	})
	if i < 0 {
		return false, nil
	}
	path := fmt.Sprintf("/spec/taints/%d", i)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": path, "value": node.Spec.Taints[i]},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return true, err
	}
	call := r.Client.Patch(types.JSONPatchType).Resource("nodes").Name(r.Node).Timeout(callTimeout).Body(patch)
	if err := call.Do(ctx).Error(); err != nil {
		return true, fmt.Errorf("patching the node: %w", err)
	}
	return true, nil
}

// isConflict reports whether the node was changed between the two calls: 422 if the test of the
// patch has failed, 409 if it was changed while the patch was applied.
func isConflict(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && (status.ErrStatus.Code == http.StatusUnprocessableEntity || status.ErrStatus.Code == http.StatusConflict)
}

// report logs an error, and sends an event if the API server replies, once until another follows.
func (r *taintRemover) report(ctx context.Context, err error) {
	if err.Error() == r.logged {
		return
	}
	r.logged = err.Error()
	hint := ""
	if apierrors.IsForbidden(err) {
		hint = "grant get and patch of nodes; a kubelet's credentials are not enough: the API server keeps it from changing taints"
	}
	r.Log.Warn("startup taint not removed, retrying", "node", r.Node, "taint", r.Taint.String(), "error", err, "hint", hint)
	if _, replied := errors.AsType[*apierrors.StatusError](err); replied {
		r.send(ctx, corev1.EventTypeWarning, events.ReasonTaintKept,
			fmt.Sprintf("the taint %s cannot be removed: %v", r.Taint, err))
	}
}

// send sends an event about the node. It is best effort: the log has the same.
func (r *taintRemover) send(ctx context.Context, kind, reason, message string) {
	if err := events.SendNode(ctx, r.Client, r.Node, kind, reason, message); err != nil {
		r.Log.Debug("event not sent", "error", err)
	}
}

// Taint is a taint of a node. A node has at most one of a key and an effect.
type Taint struct{ Key, Value, Effect string }

// String returns the form of the kubelet's --register-with-taints.
func (t Taint) String() string { return t.Key + "=" + t.Value + ":" + t.Effect }

// taintEffects are the effects that the API server accepts.
var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// parseTaint parses KEY=VALUE:EFFECT, as in the kubelet's --register-with-taints, or KEY:EFFECT.
func parseTaint(text string) (Taint, error) {
	rest, effect, ok := strings.Cut(text, ":")
	key, value, _ := strings.Cut(rest, "=")
	switch {
	case !ok || key == "":
		return Taint{}, fmt.Errorf("%q: want KEY=VALUE:EFFECT or KEY:EFFECT, such as "+
			"dnsconfigurer.dev/agent-not-ready:NoSchedule", text)
	case !slices.Contains(taintEffects, effect):
		return Taint{}, fmt.Errorf("%q: the effect is %q, want %s", text, effect, strings.Join(taintEffects, ", "))
	}
	if problems := validation.IsQualifiedName(key); problems != nil {
		return Taint{}, fmt.Errorf("%q: the key is not valid: %s", text, problems[0])
	}
	if problems := validation.IsValidLabelValue(value); problems != nil {
		return Taint{}, fmt.Errorf("%q: the value is not valid: %s", text, problems[0])
	}
	return Taint{key, value, effect}, nil
}
