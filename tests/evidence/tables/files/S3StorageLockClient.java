package org.apache.hudi.aws.transaction.lock;

import com.amazonaws.AmazonServiceException;
import com.amazonaws.ClientConfiguration;
import com.amazonaws.SdkClientException;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.s3.AmazonS3;
import com.amazonaws.services.s3.AmazonS3ClientBuilder;
import com.amazonaws.services.s3.model.ObjectMetadata;
import com.amazonaws.services.s3.model.PutObjectRequest;
import com.amazonaws.services.s3.model.S3Object;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;

/**
 * The place of the lock object on S3, under the name that Hudi loads for s3. This class is ours, not Hudi's.
 *
 * One conditional PUT per attempt and no retries, as Hudi's own client of 1.2. Answers mean the same: 412 is
 * ACQUIRED_BY_OTHERS, 429 is THROTTLED, and every other failure is UNKNOWN_ERROR, except that a create without an answer
 * is thrown. Validity may be text, as every option of Spark is.
 */
public class S3StorageLockClient implements StorageLockClient {
  private static final int PARTS_OF_VALIDITY = 5;

  private final AmazonS3 s3;
  private final String bucket;
  private final String key;

  public S3StorageLockClient(String ownerId, String lockFileUri, Properties properties) {
    Pair<String, String> place = StorageLockClient.parseBucketAndPath(lockFileUri);
    this.bucket = place.getLeft();
    this.key = place.getRight();
    Object validity = properties.get("hoodie.write.lock.storage.validity.timeout.secs");
    int requestMs = Integer.parseInt(validity == null ? "300" : validity.toString()) * 1000 / PARTS_OF_VALIDITY;
    this.s3 =
        AmazonS3ClientBuilder.standard()
            .withEndpointConfiguration(
                new EndpointConfiguration(System.getenv("AWS_ENDPOINT_URL_S3"), System.getenv("AWS_REGION")))
            .withPathStyleAccessEnabled(true)
            .disableChunkedEncoding()
            .withClientConfiguration(
                new ClientConfiguration().withMaxErrorRetry(0).withClientExecutionTimeout(requestMs))
            .build();
  }

  @Override
  public Pair<LockUpsertResult, Option<StorageLockFile>> tryUpsertLockFile(
      StorageLockData data, Option<StorageLockFile> previous) {
    byte[] body = StorageLockFile.toByteArray(data);
    PutObjectRequest put = new PutObjectRequest(bucket, key, new ByteArrayInputStream(body), sized(body));
    if (previous.isPresent()) {
      put.putCustomRequestHeader("If-Match", previous.get().getVersionId());
    } else {
      put.putCustomRequestHeader("If-None-Match", "*");
    }
    try {
      String version = quoted(s3.putObject(put).getETag());
      return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(data, version)));
    } catch (AmazonServiceException error) {
      return Pair.of(refusal(error.getStatusCode()), Option.empty());
    } catch (SdkClientException error) {
      if (!previous.isPresent()) {
        throw error;
      }
      return Pair.of(LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  private static LockUpsertResult refusal(int status) {
    switch (status) {
      case 412:
        return LockUpsertResult.ACQUIRED_BY_OTHERS;
      case 429:
        return LockUpsertResult.THROTTLED;
      default:
        return LockUpsertResult.UNKNOWN_ERROR;
    }
  }

  @Override
  public Pair<LockGetResult, Option<StorageLockFile>> readCurrentLockFile() {
    try (S3Object found = s3.getObject(bucket, key); InputStream body = found.getObjectContent()) {
      String version = quoted(found.getObjectMetadata().getETag());
      return Pair.of(LockGetResult.SUCCESS, Option.of(StorageLockFile.createFromStream(body, version)));
    } catch (AmazonServiceException error) {
      int status = error.getStatusCode();
      if (status == 404) {
        return Pair.of(LockGetResult.NOT_EXISTS, Option.empty());
      }
      if (status == 409 || status == 429 || status >= 500) {
        return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
      }
      throw error;
    } catch (IOException error) {
      throw new SdkClientException("reading the lock object", error);
    }
  }

  @Override
  public Option<String> readObject(String path, boolean checkExistsFirst) {
    Pair<String, String> place = StorageLockClient.parseBucketAndPath(path);
    try {
      return Option.of(s3.getObjectAsString(place.getLeft(), place.getRight()));
    } catch (SdkClientException error) {
      return Option.empty();
    }
  }

  @Override
  public boolean writeObject(String path, String content) {
    Pair<String, String> place = StorageLockClient.parseBucketAndPath(path);
    try {
      s3.putObject(place.getLeft(), place.getRight(), content);
      return true;
    } catch (SdkClientException error) {
      return false;
    }
  }

  @Override
  public void close() {
    s3.shutdown();
  }

  private static ObjectMetadata sized(byte[] body) {
    ObjectMetadata metadata = new ObjectMetadata();
    metadata.setContentLength(body.length);
    return metadata;
  }

  private static String quoted(String tag) {
    return "\"" + tag + "\"";
  }
}
