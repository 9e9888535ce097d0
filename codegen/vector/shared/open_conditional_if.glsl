for (uint i = gl_LocalInvocationIndex; i < count; i += GROUP) opened[i] = opens ? workgroups[i] : 0u;
