{{/*
The beginning of the names of all objects. Names of Services have no dots, and begin with a letter.
*/}}
{{- define "mistbow.name" -}}
{{- if not (regexMatch "^[a-z]" .Release.Name) -}}
{{- fail (printf "the name of the release, %s, must begin with a letter" .Release.Name) -}}
{{- end -}}
{{- .Release.Name | replace "." "-" | trunc 24 | trimSuffix "-" -}}
{{- end -}}

{{/*
Refuses two sites with one name, and two sites that one node can belong to: the node of an edge would
run pods with the rights of the core, and a node of two sites would be measured twice. Two
nodeSelectors exclude each other if a label has different values in them.
*/}}
{{- define "mistbow.checkSites" -}}
{{- range $at, $site := .Values.sites }}
{{- range $other := slice $.Values.sites 0 $at }}
{{- if eq $site.name $other.name }}{{- fail (printf "sites: there are two sites %s" $site.name) }}{{- end }}
{{- $excluded := false }}
{{- range $label, $value := $site.nodeSelector }}
{{- if ne $value (dig $label $value ($other.nodeSelector | default dict)) }}{{- $excluded = true }}{{- end }}
{{- end }}
{{- if not $excluded }}
{{- fail (printf "sites: a node can belong to both %s and %s: give each site a nodeSelector with another value of the same label, such as {site: %s}" $other.name $site.name $site.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
The name of a workload of a site: takes root, component, site, and the maximum length. Kubernetes
accepts a StatefulSet with a longer name, but cannot create its pods: it adds a hash to the name, and
a label has at most 63 characters. It shortens the names of pods of a Deployment with a longer name,
so that workers would not have the names of their identities.
*/}}
{{- define "mistbow.workload" -}}
{{- $name := printf "%s-%s-%s" (include "mistbow.name" .root) .component .site -}}
{{- if gt (len $name) (int .max) -}}
{{- fail (printf "%s has %d characters, at most %d are possible: shorten the name of the site or of the release" $name (len $name) (int .max)) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "mistbow.labels" -}}
app.kubernetes.io/name: mistbow
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The labels that select the pods of a service: takes root, component and site (may be empty). */}}
{{- define "mistbow.selector" -}}
app.kubernetes.io/name: mistbow
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- with .site }}
mistbow.io/site: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* A value as text. Helm reads numbers as floats, and would write 16777216 as 1.6777216e+07. */}}
{{- define "mistbow.text" -}}
{{- if and (kindIs "float64" .) (eq . (float64 (int64 .))) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{- define "mistbow.secret" -}}
{{- .Values.token.existingSecret | default (printf "%s-token" (include "mistbow.name" .)) -}}
{{- end -}}

{{- define "mistbow.scheme" -}}
{{- .Values.tls.enabled | ternary "https" "http" -}}
{{- end -}}

{{- define "mistbow.agentUrl" -}}
{{- printf "%s://%s-storage-%s:8300" (include "mistbow.scheme" .root) (include "mistbow.name" .root) .site -}}
{{- end -}}

{{/*
The Service by which clients outside of the cluster reach a pod: takes root, the end of its name, the
selector and the port of the pod, and expose. Only the node of the pod forwards connections, so that
network policies see the address of the client. The address is also published while an agent is not
ready, because the agent accepts points meanwhile.
*/}}
{{- define "mistbow.clientService" -}}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "mistbow.name" .root }}-clients-{{ .end }}
  labels: {{- include "mistbow.labels" .root | nindent 4 }}
spec:
  type: {{ .expose.type }}
  externalTrafficPolicy: Local
  publishNotReadyAddresses: true
  selector: {{- include "mistbow.selector" .selector | nindent 4 }}
  ports: [{name: http, port: {{ .port }}, targetPort: http{{ with .expose.nodePort }}, nodePort: {{ . }}{{ end }}}]
{{- end -}}

{{/*
The securityContext of a pod: the unprivileged user of the image. Kubernetes gives its group the
rights of a new volume, not of all files at each start.
*/}}
{{- define "mistbow.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "mistbow.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/*
The environment of a service: the settings of all services, and either its identity and the tokens
of people, or the common token. Takes root, and the kind of the identity. The home is a folder in the
volume, because the volume itself belongs to root and is open to its group.
*/}}
{{- define "mistbow.env" -}}
- {name: MISTBOW_HOME, value: /var/lib/mistbow/home}
{{- if .root.Values.identities.enabled }}
- {name: MISTBOW_IDENTITY_FILE, value: /run/secrets/mistbow/{{ .kind }}.identity}
- {name: MISTBOW_TOKENS_FILE, value: /run/secrets/mistbow/tokens.json}
{{- else }}
- {name: MISTBOW_TOKEN_FILE, value: /run/secrets/mistbow/token}
{{- end }}
{{- if .root.Values.tls.enabled }}
- {name: MISTBOW_TLS_CERT, value: /run/secrets/mistbow-tls/service.pem}
- {name: MISTBOW_TLS_KEY, value: /run/secrets/mistbow-tls/service.key}
- {name: MISTBOW_TLS_CA, value: /run/secrets/mistbow-tls/bundle.pem}
- {name: MISTBOW_TLS_CLIENT_CA, value: /run/secrets/mistbow-tls/bundle.pem}
{{- end }}
{{- range $name, $value := .root.Values.settings }}
- {name: {{ $name }}, value: {{ include "mistbow.text" $value | quote }}}
{{- end }}
{{- end -}}

{{/*
The probes of a service: takes root, port, and the time (s) that it may take to answer after its
start. Nothing answers in storage before Ignite has recovered, which can take minutes after a power
cut; a restart would begin the recovery again.
*/}}
{{- define "mistbow.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: {{ include "mistbow.scheme" .root | upper }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: {{ div .startSeconds 10 }}
livenessProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: {{ include "mistbow.scheme" .root | upper }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  exec: {command: [python3, -IS, /opt/mistbow/health.py, {{ .port | quote }}]}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{/* The volume with the identity or token of a service: takes root, component, site and kind. */}}
{{- define "mistbow.trustVolume" -}}
- name: trust
  secret:
    defaultMode: 0440
    {{- if .root.Values.identities.enabled }}
    secretName: {{ printf "%s-%s-%s" (include "mistbow.name" .root) .component .site }}
    items:
      - {key: {{ .kind }}.identity, path: {{ .kind }}.identity}
      - {key: tokens.json, path: tokens.json}
    {{- else }}
    secretName: {{ include "mistbow.secret" .root }}
    items: [{key: {{ .root.Values.token.key }}, path: token}]
    {{- end }}
{{- if .root.Values.tls.enabled }}
{{- $secret := printf "%s-%s-%s" (include "mistbow.name" .root) .component .site }}
- name: tls
  secret:
    defaultMode: 0440
    {{- if .root.Values.tls.existingSecrets }}
    secretName: {{ $secret }}-tls
    items:
      - {key: tls.crt, path: service.pem}
      - {key: tls.key, path: service.key}
      - {key: ca.crt, path: bundle.pem}
    {{- else }}
    {{- if not .root.Values.identities.enabled }}{{- fail "tls.enabled needs identities.enabled or tls.existingSecrets" }}{{- end }}
    secretName: {{ $secret }}
    items:
      - {key: service.pem, path: service.pem}
      - {key: service.key, path: service.key}
      - {key: bundle.pem, path: bundle.pem}
    {{- end }}
{{- end }}
{{- end -}}

{{/* The mounts of the volumes of mistbow.trustVolume; takes root. */}}
{{- define "mistbow.trustMounts" -}}
- {name: trust, mountPath: /run/secrets/mistbow, readOnly: true}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /run/secrets/mistbow-tls, readOnly: true}
{{- end }}
{{- end -}}

{{/* The annotations by which Prometheus discovers a pod: takes root and the port. */}}
{{- define "mistbow.scrape" -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
prometheus.io/scheme: {{ include "mistbow.scheme" .root }}
{{- end -}}

{{- define "mistbow.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The image of a role (storage, worker, enabler): with image.perRole the image of the role. Each role
can have its own tag. Kubernetes would not pull a changed image "latest" at an upgrade, but on a node
without the image: two versions would run. Takes root and role.
*/}}
{{- define "mistbow.image" -}}
{{- $image := .root.Values.image -}}
{{- $tag := (index .root.Values .role).tag | default $image.tag | default .root.Chart.AppVersion -}}
{{- if and (eq $tag "latest") (ne $image.pullPolicy "Always") -}}
{{- fail "image.tag: choose a tag for each version instead of latest, or set image.pullPolicy=Always" -}}
{{- end -}}
{{ $image.repository }}{{ if $image.perRole }}-{{ .role }}{{ end }}:{{ $tag }}
{{- end }}
