// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook is the admission webhook: the rules of package admission behind
// AdmissionReview v1 over HTTPS. It exists for the checks that the API server's admission
// policies cannot do, and for clusters without admission policies.
//
//	/validate   denies pods that would not start, and warns of all other findings
//	/mutate     replaces dnsPolicy ClusterFirstWithAutopath by a policy that the API server
//	            accepts and an annotation
//
// The webhook is on the path of every pod of a cluster, so it fails open. An object that it
// cannot read, or at which it panics, is allowed and counted. A request that is not an
// AdmissionReview gets an HTTP error, which failurePolicy Ignore lets pass. A verdict has no
// side effects, so dry runs need no special case.
package webhook
