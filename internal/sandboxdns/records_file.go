// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxdns

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
)

const (
	recordsVersion = 1

	maxRecordName  = 255     // bytes of a sandbox's ID, which is the name of a directory, and of a UID
	maxRecordLine  = 4 << 10 // bytes; both names may be escaped
	maxRecordsFile = 4 << 20 // bytes; 8,192 sandboxes of containerd have 1.7 MiB
)

// recordsHeader is the first line of the file of records. Each of the others is a recordLine.
type recordsHeader struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
}

const recordsKind = "SandboxRecords"

// recordLine is the record of a sandbox in the file. The names of pods and the texts are not in it.
type recordLine struct {
	ID     string      `json:"id"`
	UID    string      `json:"uid"`
	State  recordState `json:"state"`
	SHA256 string      `json:"sha256"` // of the text, hexadecimal
	Seen   bool        `json:"seen,omitempty"`
}

// recordsFile writes the file of records.
type recordsFile struct {
	path    string
	log     *slog.Logger
	written []byte
	failed  bool
}

// write replaces the file if the records differ from those that it has. An error is logged once.
func (f *recordsFile) write(records map[string]record) {
	text := formatRecords(records)
	if bytes.Equal(text, f.written) {
		return
	}
	err := atomicfile.Write(f.path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	switch {
	case err == nil:
		f.written, f.failed = text, false
	case !f.failed:
		f.failed = true
		f.log.Warn("records of sandboxes not written: after a restart, pods that are older than the last change of the host's "+
			"resolv.conf may not follow changes", "file", f.path, "error", err)
	}
}

// formatRecords returns the text of the file. Records that do not fit are left out.
func formatRecords(records map[string]record) []byte {
	text := appendLine(nil, recordsHeader{Kind: recordsKind, Version: recordsVersion})
	lines := 0
	for _, id := range slices.Sorted(maps.Keys(records)) {
		r := records[id]
		if r.state == "" || len(id) > maxRecordName || len(r.uid) > maxRecordName {
			continue
		}
		longer := appendLine(text, recordLine{ID: id, UID: r.uid, State: r.state, SHA256: hex.EncodeToString(r.sum[:]), Seen: r.seen})
		if lines++; lines > maxSandboxes || len(longer) > maxRecordsFile {
			break
		}
		text = longer
	}
	return text
}

// appendLine appends the JSON text of v, which has strings and numbers only.
func appendLine(text []byte, v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(append(text, line...), '\n')
}

// readRecords reads a file of records by sandbox ID. It follows no link.
func readRecords(path string) (map[string]record, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > maxRecordsFile:
		return nil, fmt.Errorf("has %d bytes: the limit is %d", info.Size(), maxRecordsFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseRecords(io.LimitReader(f, maxRecordsFile))
}

// parseRecords returns the records of a file by sandbox ID. If a line is invalid, it returns none.
func parseRecords(r io.Reader) (map[string]record, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxRecordLine)
	var h recordsHeader
	if lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
			return nil, fmt.Errorf("line 1: %w", err)
		}
	}
	if h != (recordsHeader{Kind: recordsKind, Version: recordsVersion}) {
		return nil, fmt.Errorf("line 1: kind %q, version %d: want %s, %d", h.Kind, h.Version, recordsKind, recordsVersion)
	}
	records := map[string]record{}
	number := 1
	for lines.Scan() {
		number++
		id, r, err := parseRecord(lines.Bytes())
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", number, err)
		case len(records) >= maxSandboxes:
			return nil, fmt.Errorf("more than %d records", maxSandboxes)
		}
		records[id] = r
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	return records, nil
}

// parseRecord returns the record in a line.
func parseRecord(text []byte) (id string, r record, err error) {
	var line recordLine
	if err := json.Unmarshal(text, &line); err != nil {
		return "", r, err
	}
	switch line.State {
	case textAtStart, textComputed, textDue, textDecided, textReplaced, textRestored:
	default:
		return "", r, fmt.Errorf("state %q is not known", line.State)
	}
	sum, err := hex.DecodeString(line.SHA256)
	switch {
	case err != nil || len(sum) != len(r.sum):
		return "", r, fmt.Errorf("sha256 %q: want %d hexadecimal digits", line.SHA256, 2*len(r.sum))
	case line.ID == "" || len(line.ID) > maxRecordName || len(line.UID) > maxRecordName:
		return "", r, fmt.Errorf("id of %d and uid of %d bytes: want 1 to %d and at most %d",
			len(line.ID), len(line.UID), maxRecordName, maxRecordName)
	}
	r.uid, r.state, r.seen = line.UID, line.State, line.Seen || line.State == textAtStart
	copy(r.sum[:], sum)
	return line.ID, r, nil
}
