// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook is the admission webhook: the rules of package admission behind the
// API server's AdmissionReview v1, over HTTPS. It exists for what the API server's own
// admission policies cannot know, and for clusters that have none.
//
//	/validate   pods that would not start are denied, everything else is warned of; a
//	            StatefulSet that is scaled is read, and judged with its new number of pods
//	/mutate     dnsPolicy ClusterFirstWithAutopath becomes one that the API server knows,
//	            and an annotation
//
// It stands in the way of every pod of a cluster, so it has one stance: what it cannot
// judge is admitted. An object that it cannot read, or at which it panics, is allowed and
// counted. What is no AdmissionReview gets an HTTP error, which failurePolicy Ignore lets
// pass. A verdict has no side effects, so a dry run is a run.
package webhook
